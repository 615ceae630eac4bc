"""Finds the files of a task that has a rule instead of names: lists the directories, and applies the rule to the paths.

    files that the connector also saw  --> read
    other files                        --> not read: the connector soon sees them, and gives other configurations
    files that the connector saw, but that are missing or differ here  --> looked for again, less and less often

If so many files differ that the rule cannot tell which ones, no file is read until fewer differ, or the task gets
another configuration. Files that have not settled (`files.settle.ms`) do not hold back other files, however many they
are. An unsettled file counts as a difference only if the connector saw it before it changed again.
If the task has run for 30 s, or for three scan intervals of the connector if these are longer, and has found no file
with the inode that the connector saw, the task assumes that inodes differ between machines, and compares only names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Final

from fencepost.api.errors import DataError
from fencepost.connectors.distribution import PathHashes
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.discovery import seen_inodes
from fencepost.connectors.files.discovery.file_rule import FileRule
from fencepost.connectors.files.discovery.find import Discovery
from fencepost.connectors.files.stores.objects import is_object

LEAST_WAIT_SECONDS: Final = 1.0
MOST_WAIT_SECONDS: Final = 600.0
"""The longest time between two scans for missing files. The time doubles after each scan, up to this limit."""

_log: Final = logging.getLogger(__name__)


class OwnListing:
    """The files of a rule that were found so far.

    `interval_s` is the time between two scans of the connector in seconds.
    """

    def __init__(
        self,
        rule: FileRule,
        discovery: Discovery,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rule = rule
        self._discovery = discovery
        self._clock = clock
        self._hashes = PathHashes()
        self._taken: set[str] = set()
        self._since = self._due = clock()
        self._wait_s = max(LEAST_WAIT_SECONDS, interval_s)
        self._patience_s = max(seen_inodes.NUMBERING_WAIT_SECONDS, 3 * interval_s)
        self._warned = False

    @property
    def missing(self) -> int:
        """The number of files that the connector saw, and that this task has not found yet."""
        return self._rule.count - len(self._taken)

    def look(self) -> tuple[list[str], Mapping[str, int]] | None:
        """Scan, if a scan is due, and return the newly found files in reading order, with their inodes.

        Objects have no inodes, and files have none if inodes are not compared. Raises the same errors as
        `Discovery.scan`.
        """
        now = self._clock()
        if not self.missing or now < self._due:
            return None
        self._due, self._wait_s = now + self._wait_s, min(2 * self._wait_s, MOST_WAIT_SECONDS)
        own = ((path, inode_at(path)) for path in self._rule.candidates(self._scan(0.0), self._hashes))
        inodes = {path: inode for path, inode in own if inode is not None or is_object(path)}
        found = self._seen(inodes)
        if found is None and self._discovery.settle_s:
            found = self._seen(inodes, inodes.keys() - self._scan(self._discovery.settle_s))
        if found is None:
            self._warn()
            return None
        new = [file for file in found if file not in self._taken]
        self._taken.update(new)
        return (new, {file: inode for file in new if (inode := found[file]) is not None}) if new else None

    def _scan(self, settle_s: float) -> Iterable[str]:
        # Paths that are not patterns existed when the connector started, and may be missing now.
        known = dict.fromkeys(self._discovery.patterns)
        return replace(self._discovery, settle_s=settle_s).scan(known)

    def _seen(self, inodes: Mapping[str, int | None], unlikely: Container[str] = ()) -> dict[str, int | None] | None:
        """Return the files that the connector saw, with inodes if these are compared.

        The result is None if so many files differ that the rule cannot tell which ones.
        """
        files = self._rule.seen_files(inodes, self._hashes, unlikely)
        if not (files or self._taken) and self._has_waited and self._rule.numbers_differ(inodes):
            files, inodes = self._rule.seen_names(list(inodes), self._hashes, unlikely), {}
            if files is not None:
                _log.warning(seen_inodes.NUMBERED_OTHERWISE)
        return None if files is None else {file: inodes.get(file) for file in files}

    def check_end(self) -> None:
        """Raise DataError if files are missing and are not expected to appear any more."""
        if self.missing and self._has_waited:
            raise DataError(
                f"{self.missing} of {self._rule.count} files of the task that the connector found are not there, or are other "
                "files now: bring them back, or restart the connector if they are not to be read"
            )

    @property
    def _has_waited(self) -> bool:
        return self._clock() >= self._since + self._patience_s

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "The directories of %s have more than 1,500 files of this task that the connector has not found, or lack "
                "more than 1,500 that it has found. Waiting for them, or for the connector's next scan",
                ", ".join(self._discovery.patterns),
            )
