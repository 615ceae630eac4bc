"""Finds files that may already be partly read, even if they changed within the last `files.settle.ms`.

    the file's name has a committed offset, in any spelling    the file grows, and the connector was restarted
    the offset of another name has the file's identity         the file was renamed, and is still written to
    a known name has the file's inode                          also a rename, maybe before the first commit

If only the new file under an old name were found, it would take the old name's offset, and the renamed file would be
read from its start. In the last of these cases, the file may also be a new file with the inode of a deleted file. The
task that gets the file finds out which is the case, because no other task can commit an offset of the file any more. A
file without an offset must then settle before it is read (see `Discovery.has_settled`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.context import OffsetReader
from fencepost.api.errors import DataError
from fencepost.connectors.files.content.growing import FILENAME_FIELD
from fencepost.connectors.files.discovery.renames import former_names
from fencepost.connectors.files.discovery.seen_inodes import SeenInodes
from fencepost.connectors.files.discovery.spellings import other_spellings, respelled


class BegunFiles:
    """Finds unsettled files that may be partly read, by the known files and by the committed offsets.

    The offsets are read once for each such file.
    """

    def __init__(self, reader: OffsetReader, allowed: AllowedPaths) -> None:
        self._reader = reader
        self._allowed = allowed
        # The files of the previous call that had no offset.
        self._checked: Mapping[str, int | None] = {}

    def among(self, unsettled: Mapping[str, int | None], known: Mapping[str, int | None]) -> Collection[str]:
        """Return the unsettled files that may already be partly read.

        `known` are the names that earlier scans found. `known` and `unsettled` map paths to inodes. Raises DataError as
        `former_names` does.
        """
        given = set(known.values())
        begun = {file for file, inode in unsettled.items() if inode in given}
        checked = self._checked
        unsure = [file for file, inode in unsettled.items() if file not in begun and checked.get(file) != inode]
        begun |= self._with_offsets(unsure) if unsure else set()
        self._checked = {file: inode for file, inode in unsettled.items() if file not in begun}
        return begun

    def _with_offsets(self, files: Collection[str]) -> set[str]:
        committed = self._reader.items()
        names = {str((partition or {}).get(FILENAME_FIELD)) for partition, offset in committed if offset is not None}
        spellings = respelled(files, names)
        named = {file for file in files if not names.isdisjoint([file, *other_spellings(file, spellings)])}
        return named | former_names(files, committed, self._allowed).keys()


def check_unread(files: Collection[str], reader: OffsetReader, allowed: AllowedPaths, inodes: SeenInodes) -> None:
    """Raise DataError if a file of a task was read under an old name that its connector did not find.

    The connector may have read the offsets while the previous run of a task could still commit. `files` have no offset.
    """
    for file, (name, *_) in former_names(files, reader.items() if files else (), allowed).items():
        # The connector soon reports a rename that came after the task's start.
        if not inodes.is_unsure(file):
            raise DataError(
                f"The file {file} was read as {name}, and renamed while its connector started. Restart the connector with "
                "its tasks: it finds the offset of the old name then, and the file is read on"
            )
