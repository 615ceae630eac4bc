"""The identity of a file: distinguishes a file that grew from another file in its place, and finds it under a new name.

    {"filename": path} -> {"position": ..., "identity": "{inode, modified, end, head, tail}"}

`head` and `tail` are hashes of the first bytes and of the bytes before `end`. `end` is the position up to which the
file was known when the offset was made. A file may only grow, so both hashes stay the same.

    the path has the same head and tail     it is the same file, whatever its inode: it may have been copied back
    the path has another head or tail       the file was replaced
    another path has the same head, tail and inode, and the old path has another file or none     the file was renamed

A new file may get the inode of a deleted file. If the sampled bytes are also the same, the file counts as the same only
if it is longer or has the same modification time. So when a file keeps its name and bytes but gets another inode or
modification time, these are updated in its identity.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from io import BytesIO, FileIO
from typing import Any, Final, Self

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.connectors.files.content.ranges import open_file, unreadable
from fencepost.connectors.files.stores.objects import is_object, read_at

IDENTITY_FIELD: Final = "identity"

SAMPLE_BYTES: Final = 1_024
"""The maximum number of bytes that a hash covers."""

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})

_INODE: Final = re.compile(r'\{"inode": (\d+), ')

Stamp = tuple[int, int, int]
"""A file's state when checked: inode, modification time in nanoseconds since 1970, size in bytes."""


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file with this status."""
    return status.st_ino, status.st_mtime_ns, status.st_size


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The identity of a file up to byte `end`. `modified` is the file's modification time in nanoseconds since 1970.

    `changed` is the time of the last change of the file's status, also in nanoseconds since 1970. Each write changes
    `changed`, and programs cannot set it. `changed` is 0 if the file's content is decoded: the position in the offset
    is then not a position in the file's own bytes.
    """

    inode: int
    modified: int
    end: int
    head: str
    tail: str
    changed: int = 0

    @classmethod
    def of(cls, file: FileIO, end: int, *, plain: bool) -> Self:
        """Return the identity of an open file up to byte `end`. Raises OSError.

        `plain` means that the content is not decoded.
        """
        return cls.at(os.fstat(file.fileno()), file, end, plain=plain)

    @classmethod
    def at(cls, status: os.stat_result, file: FileIO | BytesIO, end: int, *, plain: bool) -> Self:
        """Return the same as `of`, for a file whose status is known."""
        changed = status.st_ctime_ns if plain else 0
        return cls(status.st_ino, status.st_mtime_ns, end, *_hashes(file, end), changed)

    @classmethod
    def in_offset(cls, path: str, offset: Mapping[str, Any] | None) -> Self | None:
        """Return the identity in a committed source offset, None if the offset has none.

        Raises DataError if the identity is invalid.
        """
        text = (offset or {}).get(IDENTITY_FIELD)
        if text is None:
            return None
        try:
            found = cls(**json.loads(text))
        except (TypeError, ValueError):
            found = None
        if found is None or not found._is_valid():  # noqa: SLF001 - of this class
            raise DataError(
                f"The offset of the file {path} has the {IDENTITY_FIELD} {text!r}, which is invalid: remove the field, so that "
                "the file at the path is read on from the position, whichever file it is"
            )
        return found

    @classmethod
    def inode_in_offset(cls, path: str, offset: Mapping[str, Any] | None) -> int | None:
        """Return the inode of the identity in an offset; see `in_offset`.

        This method is fast for identities in the form that `in_json` writes.
        """
        text = (offset or {}).get(IDENTITY_FIELD)
        if isinstance(text, str) and (start := _INODE.match(text)) is not None:
            return int(start[1])
        identity = cls.in_offset(path, offset)
        return identity.inode if identity is not None else None

    def _is_valid(self) -> bool:
        # This check is short, because a task checks the identities of all of its files when it starts.
        integers = type(self.inode) is type(self.modified) is type(self.end) is type(self.changed) is int
        return integers and self.end >= 0

    def in_json(self) -> str:
        """Return this as JSON text, because offsets cannot contain nested values."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    def begins(self, file: FileIO) -> bool:
        """Return whether an open file begins with the bytes of this file up to `end`, judged by samples.

        Raises OSError.
        """
        return _hashes(file, self.end) == (self.head, self.tail)

    def is_whole(self, status: os.stat_result) -> bool:
        """Return whether the status shows that the file was read completely, and was not written to since."""
        return (self.inode, self.modified, self.end) == stamp_of(status) and self.changed == status.st_ctime_ns

    def is_stale(self, stamp: Stamp) -> bool:
        """Return whether a file with the same bytes is nevertheless another file, judged by its stamp."""
        inode, modified, size = stamp
        return inode != self.inode or (size == self.end and modified != self.modified)

    def is_in(self, file: FileIO) -> bool:
        """Return whether an open file is this file. On another machine its inode may differ. Raises OSError."""
        return os.fstat(file.fileno()).st_ino == self.inode or self.begins(file)

    def is_at(self, path: str, allowed: AllowedPaths) -> bool:
        """Return whether the file at a path is this file. Raises DataError if the file cannot be read."""
        try:
            with open_file(path, allowed) as file:
                stamp = stamp_of(os.fstat(file.fileno()))
                return stamp[2] >= self.end and not self.is_stale(stamp) and self.begins(file)
        except DataError:
            if is_gone(path):
                # The file was renamed or deleted meanwhile.
                return False
            raise
        except OSError as error:
            raise unreadable(path, error) from error


def _hashes(file: FileIO | BytesIO, end: int) -> tuple[str, str]:
    size = min(SAMPLE_BYTES, end)
    head = _hash(read_at(file, size, 0))
    return head, head if size == end else _hash(read_at(file, size, end - size))


def _hash(sample: bytes) -> str:
    return blake2b(sample, digest_size=8).hexdigest()


def inode_at(path: str) -> int | None:
    """Return the inode of the file at a path, None if there is no file or if the path is an object."""
    try:
        return None if is_object(path) else os.stat(path).st_ino  # noqa: PTH116 - spares making a Path for each file
    except OSError:
        return None


def is_gone(path: str, *, follow_links: bool = True) -> bool:
    """Return whether a path certainly has no file. Errors of a server, or missing permissions, do not prove that."""
    try:
        os.stat(path, follow_symlinks=follow_links)  # noqa: PTH116 - as above
    except OSError as error:
        return error.errno in _GONE
    return False


class FileTrack:
    """Tracks which file is at a path.

    `identity` covers the file up to the end of the returned records; it is None before the first records.
    """

    def __init__(self, path: str, identity: FileIdentity | None, allowed: AllowedPaths) -> None:
        self.path = path
        self.identity = identity
        self._allowed = allowed
        self.seen: Stamp | None = None
        """The stamp at the last check that found the same file."""

    @property
    def offset(self) -> dict[str, Any]:
        """The identity as a field of the source offset."""
        return {IDENTITY_FIELD: self.identity.in_json()} if self.identity is not None else {}

    @property
    def was_moved(self) -> bool:
        """Whether the path now has a file other than `identity`, or no file."""
        return self.identity is not None and inode_at(self.path) != self.identity.inode

    def follow(self, seen: Stamp | None, end: int | None, read: FileIdentity | None, *, plain: bool) -> bool:
        """Check the file that was just seen. If `end` is given, also update `identity` to the file up to `end`.

        Return whether `identity` changed. If `end` is None, it changes only if the file got another inode or
        modification time. `read` is the file's identity up to `end` if already known. Raises DataError if the path has
        another file.
        """
        known = self.identity
        if seen is None or (seen == self.seen and end is None):
            return False
        if known is None and read is not None and read.end == end:
            self._take(read, seen)
            self.seen = seen
            return True
        try:
            with open_file(self.path, self._allowed) as file:
                # Get the status before the bytes are compared: a write after the comparison then gives the file a later
                # time than in this status.
                status = os.fstat(file.fileno())
                if known is not None and not known.begins(file):
                    raise self._replaced()
                if end is not None:
                    self._take(FileIdentity.of(file, end, plain=plain), seen)
                elif known is not None and known.is_stale(seen) and stamp_of(status) == seen:
                    changed = status.st_ctime_ns if known.changed else 0
                    self.identity = replace(known, inode=seen[0], modified=seen[1], changed=changed)
        except OSError as error:
            raise unreadable(self.path, error) from error
        self.seen = seen
        return self.identity is not known

    def _take(self, found: FileIdentity, seen: Stamp) -> None:
        if found.inode != seen[0]:
            # The file was replaced after the check, so it is unknown which file was read.
            raise self._replaced()
        self.identity = found

    def _replaced(self) -> DataError:
        end = self.identity.end if self.identity is not None else 0
        return DataError(
            f"The file {self.path} was replaced by another one: its offset belongs to the former file, up to byte {end}. "
            "Give new content a new name. Bring the former file back, or reset the connector's offsets to read the file that is there from its "
            f"start. To have it read on from the position, remove {IDENTITY_FIELD} from its offset"
        )
