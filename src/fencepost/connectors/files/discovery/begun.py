"""Renamed files that were begun under another name need not settle again (`files.settle.ms`).

A file may be written to after it was renamed, and its old name may have a new file that settles earlier. If only the new
file were found then, it would take the old name's offset, and the renamed file would be read from its start.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.context import OffsetReader
from fencepost.connectors.files.discovery.renames import former_names


class BegunFiles:
    """Finds them by the committed offsets, which are read only if there is a file that may be one."""

    def __init__(self, reader: OffsetReader, allowed: AllowedPaths) -> None:
        self._reader = reader
        self._allowed = allowed
        self._checked: set[tuple[str, int | None]] = set()

    def among(self, unsettled: Mapping[str, int | None], known: Mapping[str, int | None]) -> Collection[str]:
        """Return the begun ones of files that have not settled; `known` are the names of earlier scans. Both have inodes.

        Raises DataError as `former_names`.
        """
        # Tasks commit offsets of known files at any time, and of no others.
        given = set(known.values())
        files = [file for file, inode in unsettled.items() if inode in given or (file, inode) not in self._checked]
        self._checked = {(file, inode) for file, inode in self._checked if file not in known} | {*unsettled.items()}
        return former_names(files, self._reader.items(), self._allowed).keys() if files else ()
