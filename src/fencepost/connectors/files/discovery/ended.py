"""Handles files that were read to their end: they are kept, deleted or moved, but never before the end is committed.

    read to the end --(has settled)--> offset {"position": ..., "ended": mark} --(commit)--> deleted or moved
                                                    |
                                                    +-- a crash before that: the next start finds the mark, and goes on

The mark distinguishes the file from a later file of the same name: it has the inode, modification time, size, and a
hash of the first bytes. A file of that name with another mark is new, and is read from its start. A file that has grown
was not complete. That is an error, because the delivered first part would be deleted together with the rest.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.api.record import SourceOffset
from fencepost.connectors.files.content.identity import is_gone, stamp_of
from fencepost.connectors.files.content.ranges import open_file, unreadable

ENDED_FIELD: Final = "ended"
_HOW_TO_READ_THE_REST: Final = (
    f"to have the rest read, set its offset as GET /connectors/NAME/offsets shows it, without the field {ENDED_FIELD}"
)
_HEAD_BYTES: Final = 4_096
_NAME_CHARACTERS: Final = 40
"""In UTF-8, this number of characters takes at most 160 bytes; file names may have 255 bytes."""


class AfterEnd(StrEnum):
    """The values of the property `files.after.end`."""

    LEAVE = "leave"
    DELETE = "delete"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class Mark:
    """The identity and state of a file that was read to its end.

    `modified` is the modification time in nanoseconds since 1970, `head` is a hash of the first bytes.
    """

    inode: int
    modified: int
    size: int
    head: str

    @classmethod
    def of(cls, path: str, allowed: AllowedPaths, head_bytes: int = _HEAD_BYTES) -> Mark | None:
        """Return the mark of the file at a path, None if there is no file.

        Raises DataError or StaleFileError if the file cannot be read.
        """
        if is_gone(path):
            return None
        with open_file(path, allowed) as file:
            status = os.fstat(file.fileno())
            try:
                head = file.read(head_bytes)
            except OSError as error:
                raise unreadable(path, error) from error
        return cls(status.st_ino, status.st_mtime_ns, status.st_size, blake2b(head, digest_size=8).hexdigest())

    @classmethod
    def in_offset(cls, offset: Mapping[str, Any] | None) -> Mark | None:
        """Return the mark in a committed source offset, None if the offset does not belong to a file at its end.

        Raises DataError if the mark is invalid.
        """
        text = (offset or {}).get(ENDED_FIELD)
        if text is None:
            return None
        try:
            found = cls(**json.loads(text))
        except (TypeError, ValueError):
            found = None
        if found is None or not type(found.inode) is type(found.modified) is type(found.size) is int:
            raise DataError(
                f"The field {ENDED_FIELD} of the offset {dict(offset or {})} is not what FileSource wrote: remove the field, so "
                "that files.after.end applies to the file again"
            )
        return found

    def in_json(self) -> str:
        """Return this as JSON text, because offsets cannot contain nested values."""
        return json.dumps(asdict(self))

    def is_at(self, path: str, allowed: AllowedPaths) -> bool:
        """Return whether the file is still at its path; False if there is no file, or a new one.

        Raises DataError if the same file has grown.
        """
        found = Mark.of(path, allowed, min(_HEAD_BYTES, self.size))
        if found is None or found == self:
            return found is not None
        if found.size > self.size and found.head == self.head:
            raise DataError(
                f"The file {path} has grown after it was read to its end, and files.after.end would delete or move it: let "
                "writers put whole files there, or set files.settle.ms higher. The file stays where it is. To have it read from "
                f"its start, remove its offset; {_HOW_TO_READ_THE_REST}"
            )
        return False

    def is_copied_to(self, path: str, allowed: AllowedPaths) -> bool:
        """Return whether the file at a path has the size and the first bytes of this file."""
        found = Mark.of(path, allowed, min(_HEAD_BYTES, self.size))
        return found is not None and (found.size, found.head) == (self.size, self.head)


def check_mark(path: str, offset: SourceOffset, stored: SourceOffset | None, places: Collection[str]) -> None:
    """Raise DataError if an offset has the end mark of the stored offset, but another position in the file.

    `places` are the fields that make up a position. The task would take the file away without reading the rest.
    """
    mark = offset.get(ENDED_FIELD)
    if mark is None or stored is None or stored.get(ENDED_FIELD) != mark:
        return
    if any((offset.get(name) or 0) != (stored.get(name) or 0) for name in places):
        raise DataError(
            f"The offset {dict(offset)} of the file {path} marks the file as read to its end, but has another position than the "
            f"stored offset with this mark, so the rest would not be read: leave out the field {ENDED_FIELD}"
        )


def take_away(path: str, after_end: AfterEnd, folder: str | None) -> bool:
    """Delete a file, or move it to a folder under a free name; return False if the file is already gone.

    Raises DataError or StaleFileError if the deletion or move fails, or if the file has grown.
    """
    try:
        if after_end is AfterEnd.DELETE or folder is None:
            os.unlink(path)  # noqa: PTH108 - as the other functions on paths here
            return True
        return _move(path, Path(folder))
    except OSError as error:
        if error.errno == errno.ESTALE:
            raise unreadable(path, error) from error
        if is_gone(path, follow_links=False):
            # Another program removed the file, maybe with its directory, and may bring it back.
            return False
        raise DataError(
            f"The file {path} was read to its end, but cannot be {'moved' if folder else 'deleted'}: {error}. Give the "
            "worker's operating system user the right to do this, or set files.after.end=leave"
        ) from error


def _move(path: str, folder: Path) -> bool:
    target = _taken_name(folder, Path(path).name)
    try:
        os.replace(path, target)  # noqa: PTH105 - as above
    except OSError as error:
        target.unlink()
        if error.errno != errno.EXDEV:
            raise
        return _move_by_copy(path, folder)
    return True


def _move_by_copy(path: str, folder: Path) -> bool:
    """Copy a file to another file system, and then delete the original; return False if the original is already gone.

    The original is deleted after its copy is on the disk. A new file that gets the original's name during the copy is
    not deleted: it was not read yet.
    """
    name, before = Path(path).name, os.stat(path)  # noqa: PTH116 - as above
    # The copy has a hidden name, because programs do not take hidden files for complete ones. After a crash, the same
    # file gets the same name again. The device is in the name because files of two file systems may have the same inode
    # and name. The file's name is shortened because a name of maximum length could not be extended.
    copy = folder / f".{name[:_NAME_CHARACTERS]}.{before.st_dev:x}.{before.st_ino:x}.part"
    try:
        shutil.copy2(path, copy)
        _sync(copy)
        _check_not_grown(path, before)
        os.replace(copy, _taken_name(folder, name))  # noqa: PTH105 - as above
        _sync(folder)
    except (OSError, DataError):
        copy.unlink(missing_ok=True)
        raise
    try:
        if os.stat(path).st_ino == before.st_ino:  # noqa: PTH116 - as above
            os.unlink(path)  # noqa: PTH108 - as above
    except FileNotFoundError:
        return False
    return True


def _sync(path: Path) -> None:
    """Make the system write the content of a file, or the names in a directory, to the disk."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except PermissionError:
        # A directory may be writable without being readable.
        return
    try:
        os.fsync(opened)
    except OSError as error:
        # Some network file systems do not support this call for directories.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(opened)


def _check_not_grown(path: str, before: os.stat_result) -> None:
    with suppress(FileNotFoundError):
        now = os.stat(path)  # noqa: PTH116 - as above
        if now.st_ino == before.st_ino and stamp_of(now) != stamp_of(before):
            raise DataError(
                f"The file {path} was written to after it was read to its end, while it was moved to another file system: let "
                "writers put whole files there, or set files.settle.ms higher. It is left alone. To have it read from its "
                f"start, remove its offset; {_HOW_TO_READ_THE_REST}"
            )


def _taken_name(folder: Path, name: str) -> Path:
    """Return the first free name, and reserve it with an empty file.

    Other tasks may move files of the same name at the same time.
    """
    for number in count():
        target = folder / (f"{name}.{number}" if number else name)
        with suppress(FileExistsError):
            target.touch(exist_ok=False)
            break
    return target
