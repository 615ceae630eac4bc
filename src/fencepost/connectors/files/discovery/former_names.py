"""The old names and other spellings of a connector's files, found again each time that files are added.

Committed offsets contain these names (see `renames`, `spellings`), but reading all offsets for one new file would take
longer than the rest of the work. The offsets contain nothing new about a file if both conditions hold:

- The file has an inode that no file had before: neither a file that was given to a task nor a file in an offset that
  was committed before the first call. Tasks commit offsets only for files that they were given, and an offset is
  altered only while the connector is stopped.
- The file is in a directory that other files are in, so that its other spellings are known.

Inodes are kept until MOST_SEEN others came after them. Then all offsets are read again, including those that tasks
committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, filterfalse
from operator import ne
from typing import Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.context import OffsetReader
from fencepost.connectors.files.content.growing import FILENAME_FIELD
from fencepost.connectors.files.content.identity import FileIdentity
from fencepost.connectors.files.discovery.renames import former_names
from fencepost.connectors.files.discovery.spellings import respelled
from fencepost.connectors.files.discovery.watch import FileWatch
from fencepost.connectors.files.stores.objects import is_object

MOST_SEEN: Final = 100_000
"""The number of new inodes after which inodes that were seen earlier are forgotten: it limits memory to about 10 MB."""


class FormerNames:
    """The names that were found so far.

    The names are kept, so that tasks whose files stay the same keep their configurations.
    """

    def __init__(self, reader: OffsetReader, allowed: AllowedPaths) -> None:
        self._reader = reader
        self._allowed = allowed
        self.formers: dict[str, list[str]] = {}
        """The old names of each renamed file."""
        self.spellings: dict[str, list[str]] = {}
        """Other spellings of each directory."""
        # The inode of each file at the previous call, None if some inodes were not known.
        self._inodes: Mapping[str, int] | None = None
        self._directories: set[str] = set()
        # The inodes of all files that were assigned to a task, or that had an offset.
        self._seen: set[int | None] = set()
        # The inodes in `_seen` before it was last emptied.
        self._seen_before: set[int | None] = set()
        # The number of inodes in `_seen` that come from offsets. It raises the limit of MOST_SEEN, because each reading
        # of the offsets adds these inodes again.
        self._committed = 0

    def update(self, watch: FileWatch, files: Sequence[str], inodes: Mapping[str, int] | None) -> None:
        """Find the old names and spellings of the files that are watched. Raises DataError as `former_names` does."""
        # A file without an inode may have been read before it was seen. Objects have no inodes and no other names.
        now = inodes if inodes is not None and all(map(is_object, filterfalse(inodes.__contains__, files))) else None
        if now is None or not self._are_new(now):
            self._read(files, inodes or {})
        self._inodes = now
        self._seen.update(() if now is None else now.values())
        if len(self._seen) > MOST_SEEN + 2 * len(files) + self._committed:
            self._seen_before, self._seen = self._seen, set() if now is None else set(now.values())
            self._read(files, inodes or {})
        for file, names in watch.formers.items():
            self.formers[file] = list(dict.fromkeys([*self.formers.get(file, ()), *names]))
        for gone in self.formers.keys() - set(files) if self.formers else ():
            del self.formers[gone]

    def _are_new(self, now: Mapping[str, int]) -> bool:
        """Return whether all files that changed since the previous call are new.

        If they are new, no committed offset belongs to them.
        """
        known = self._inodes
        if known is None:
            return False
        changed = list(compress(now, map(ne, now.values(), map(known.get, now))))
        numbers = [now[file] for file in changed]
        are_new = self._seen.isdisjoint(numbers) and self._seen_before.isdisjoint(numbers)
        return are_new and self._directories.issuperset(map(_directory, changed))

    def _read(self, files: Sequence[str], inodes: Mapping[str, int]) -> None:
        committed = self._reader.items()
        self.formers |= former_names(files, committed, self._allowed, inodes)
        names = [str((partition or {}).get(FILENAME_FIELD, "")) for partition, _ in committed]
        self.spellings |= respelled(files, names)
        numbers = {
            FileIdentity.inode_in_offset(name, offset) for name, (_, offset) in zip(names, committed, strict=True)
        } - {None}
        self._seen |= numbers
        self._committed = len(numbers)
        self._directories = set(map(_directory, files))


def _directory(file: str) -> str:
    return file.rpartition("/")[0]
