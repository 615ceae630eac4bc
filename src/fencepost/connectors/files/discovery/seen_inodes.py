"""The inodes that the connector saw: with them its task checks that a name still has the file that was assigned.

same inode        --> read
another inode     --> not read until the connector's next scan, which gives tasks other configurations if it matters
|
+--no name has the inode that the connector saw, for 30 s--> not compared any more
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from fencepost.api.errors import DataError
from fencepost.connectors.files.content.identity import FileTrack, Stamp, inode_at

NUMBERING_WAIT_SECONDS: Final = 30.0
"""How long to wait for other inodes from the connector. After that its machine is assumed to number files differently."""

NUMBERED_OTHERWISE: Final = (
    "No file has the same inode here as on the connector's machine: the file system numbers files for each "
    "machine. Renamed files are read again"
)

_log: Final = logging.getLogger(__name__)


class SeenInodes:
    """Inodes by path, None for a name without a file; empty if the connector does not scan again.

    `looks_s` is the duration of some scans of the connector, in seconds.
    """

    def __init__(self, inodes: Mapping[str, int | None], looks_s: float) -> None:
        self._inodes: dict[str, int | None] = {}
        self._looks_s = looks_s
        # Names that had another file when the task started: it is unknown whether that file was read under another
        # name.
        self._unsure: set[str] = set()
        self._waiting: dict[str, float] = {}
        self.add(inodes)

    def add(self, inodes: Mapping[str, int | None]) -> None:
        """Compare more files as well."""
        self._inodes |= inodes
        self._unsure |= {path for path, inode in inodes.items() if inode_at(path) != inode}

    def has_another(self, path: str) -> bool:
        """Return whether a name has another file than the connector saw: the connector soon reports a rename."""
        if path not in self._inodes or inode_at(path) in {self._inodes[path], None}:
            self._waiting.pop(path, None)
            return False
        self._wait(path)
        return path in self._inodes

    def is_unsure(self, path: str) -> bool:
        """Return whether a name has, or had, another file than the connector saw."""
        return path in self._unsure or self.has_another(path)

    def was_unsure(self, path: str) -> bool:
        """Return whether a name had another file than the connector saw, without checking it again."""
        return path in self._unsure

    def check_start(self, path: str, track: FileTrack) -> None:
        """Raise DataError for an unread file whose name has its file back: it may have been read under another name."""
        if path in self._unsure and track.identity is None and inode_at(path) is not None:
            raise DataError(
                f"The file {path} had another name when the task started, and came back since: whether it was read under "
                "that is not known. Restart the task"
            )

    def check_seen(self, path: str, seen: Stamp | None) -> None:
        """Raise DataError if the last check of a file found another one than the connector saw."""
        told = self._inodes.get(path)
        if seen is not None and told is not None and seen[0] != told:
            self._unsure.add(path)
            raise DataError(f"The path {path} got another file while it was looked at. Restart the task")

    def _wait(self, path: str) -> None:
        now = time.monotonic()
        if path not in self._waiting:
            self._waiting[path] = now
            _log.info("The path %s has another file now. Waiting for the next scan to find out which one", path)
        elif now >= self._waiting[path] + max(NUMBERING_WAIT_SECONDS, self._looks_s):
            self._give_up()

    def _give_up(self) -> None:
        """Stop comparing if no file has the inode that the connector saw."""
        if all(inode is None or inode_at(path) != inode for path, inode in self._inodes.items()):
            _log.warning(NUMBERED_OTHERWISE)
            self._inodes.clear()
            self._unsure.clear()
