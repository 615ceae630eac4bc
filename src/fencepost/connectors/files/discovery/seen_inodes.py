"""The inodes that the connector saw: with them, a task checks that each name still has the file assigned to it.

same inode        --> read
another inode     --> not read until the connector's next scan, which gives tasks other configurations if necessary
|
+--no name has the inode that the connector saw, for 30 s--> inodes are not compared any more
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from fencepost.api.errors import DataError
from fencepost.connectors.files.content.identity import FileTrack, Stamp, inode_at

NUMBERING_WAIT_SECONDS: Final = 30.0
"""The minimum time that a task waits for the connector's next scan if a path has another inode than the connector saw.

If no file has the inode that the connector saw after this time, the task assumes that inodes differ between the two
machines.
"""

NUMBERED_OTHERWISE: Final = (
    "No file has the same inode here as on the connector's machine: the file system numbers files for each "
    "machine. Renamed files are read again"
)

_log: Final = logging.getLogger(__name__)


class SeenInodes:
    """The inode that the connector saw for each path; None for a path without a file.

    There are no inodes if the connector does not scan again. `looks_s` is the duration of several scan intervals of the
    connector, in seconds.
    """

    def __init__(self, inodes: Mapping[str, int | None], looks_s: float) -> None:
        self._inodes: dict[str, int | None] = {}
        self._looks_s = looks_s
        # Paths at which the task found another file than the connector. That file may already have been read under
        # another name.
        self._unsure: set[str] = set()
        self._waiting: dict[str, float] = {}
        self.add(inodes)

    def add(self, inodes: Mapping[str, int | None]) -> None:
        """Add files to compare."""
        self._inodes |= inodes
        self._unsure |= {path for path, inode in inodes.items() if inode_at(path) != inode}

    def has_another(self, path: str) -> bool:
        """Return whether a path has another file than the one that the connector saw there.

        If the file was renamed, the connector soon detects this and changes the task's configuration.
        """
        if path not in self._inodes or inode_at(path) in {self._inodes[path], None}:
            self._waiting.pop(path, None)
            return False
        self._wait(path)
        return path in self._inodes

    def is_unsure(self, path: str) -> bool:
        """Return whether a path has, or had, another file than the one that the connector saw there."""
        return path in self._unsure or self.has_another(path)

    def was_unsure(self, path: str) -> bool:
        """Return whether a path had another file than the one that the connector saw, without checking it again."""
        return path in self._unsure

    def check_start(self, path: str, track: FileTrack) -> None:
        """Raise DataError for an unread file that is back at its path: it may have been read under another name."""
        if path in self._unsure and track.identity is None and inode_at(path) is not None:
            raise DataError(
                f"The file {path} had another name when the task started, and came back since: it is unknown whether it "
                "was read under the other name. Restart the task"
            )

    def check_seen(self, path: str, seen: Stamp | None) -> None:
        """Raise DataError if the last check of a path found another file than the one that the connector saw there."""
        told = self._inodes.get(path)
        if seen is not None and told is not None and seen[0] != told:
            self._unsure.add(path)
            raise DataError(f"The path {path} got another file while it was checked. Restart the task")

    def _wait(self, path: str) -> None:
        now = time.monotonic()
        if path not in self._waiting:
            self._waiting[path] = now
            _log.info("The path %s has another file now. Waiting for the next scan to find out which one", path)
        elif now >= self._waiting[path] + max(NUMBERING_WAIT_SECONDS, self._looks_s):
            self._give_up()

    def _give_up(self) -> None:
        """Stop comparing inodes if no file has the inode that the connector saw."""
        if all(inode is None or inode_at(path) != inode for path, inode in self._inodes.items()):
            _log.warning(NUMBERED_OTHERWISE)
            self._inodes.clear()
            self._unsure.clear()
