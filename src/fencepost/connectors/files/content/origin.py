"""Where the bytes of a file are: in a file system, where the file may grow, or in an object store.

As soon as an object exists, it is complete and does not grow. Its identity is its size and ETag. This identity is
compared before any bytes of the object are returned. The source offset of a text object contains it: `{"position": ...,
"object": "..."}`. When the server does not answer, RetriableError is raised, and a later read continues from the same
position. An offset is at the end of an object if its `end` equals its position: from then on, the store may delete the
object.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.connectors.files.content.growing import POSITION_FIELD, Awaited
from fencepost.connectors.files.content.identity import Stamp, stamp_of
from fencepost.connectors.files.content.ranges import open_object, unreadable
from fencepost.connectors.files.stores.objects import is_object, size_and_time

OBJECT_FIELD: Final = "object"
END_FIELD: Final = "end"


class ContentOrigin(Protocol):
    """Where the bytes of one file are. `whole` says whether the file is complete from the start and cannot grow."""

    whole: ClassVar[bool]
    path: str

    def is_missing(self, *, whole: bool = False) -> bool:
        """Return whether the file does not exist yet.

        `whole` means that the file must exist: DataError is raised if it is missing.
        """

    def stamp(self) -> Stamp | None:
        """Return a value that changes if the file is changed or replaced, None if there is no file.

        Raises DataError if the file cannot be read, or an object is missing. Raises RetriableError if a store or a
        file server does not answer.
        """

    def check(self, position: int, opened: str | None = None) -> None:
        """Raise DataError if the file is not the one that was read up to the position.

        `opened` is the identity of the file as it was opened. Without it, the file that is now at the path is compared.
        """

    @property
    def offset(self) -> dict[str, Any]:
        """The fields of a source offset that identify the file."""


class FileOrigin(Awaited):
    """A file of a file system. Its identity is followed separately (`FileTrack`)."""

    whole: ClassVar[bool] = False

    def stamp(self) -> Stamp | None:
        """Return inode, modification time, and size."""
        try:
            return stamp_of(os.stat(self.path))  # noqa: PTH116 - called often: spares making a Path each time
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(self.path, error) from error

    def check(self, position: int, opened: str | None = None) -> None:
        """Do nothing: `FileTrack` checks the identity of the file."""

    @property
    def offset(self) -> dict[str, Any]:
        """Return no fields."""
        return {}


class ObjectOrigin:
    """An object of a store. `identity` identifies the object that was read; it is None before the first read."""

    whole: ClassVar[bool] = True

    def __init__(self, path: str, allowed: AllowedPaths, identity: str | None) -> None:
        self.path = path
        self._allowed = allowed
        self._identity = identity

    def is_missing(self, *, whole: bool = False) -> bool:  # noqa: ARG002 - as in `ContentOrigin`
        """Return False: reading a missing object fails."""
        return False

    def stamp(self) -> Stamp:
        """Return 0, the modification time, and the size. Raises DataError if there is no object."""
        status = size_and_time(self.path)
        if status is None:
            raise DataError(
                f"The object {self.path} does not exist: bring it back, or reset the connector's offsets if it is not to be "
                "read"
            )
        size, changed = status
        return 0, int(changed), size

    def check(self, position: int, opened: str | None = None) -> None:
        """Compare the object's identity with the known identity. If none is known, remember it."""
        found = opened if opened is not None else self._identity_of_stored()
        if self._identity not in (None, found):
            raise DataError(
                f"The object {self.path} was replaced: its offset, at byte {position} of its content, belongs to the former "
                "object. Give new content a new name. Bring the former object back, or reset the connector's offsets to read the one that is "
                "there from its start"
            )
        self._identity = found

    def _identity_of_stored(self) -> str:
        with open_object(self.path, self._allowed) as opened:
            return opened.identity

    @property
    def offset(self) -> dict[str, Any]:
        """The identity of the object, as a field."""
        return {OBJECT_FIELD: self._identity} if self._identity else {}


def origin_of(path: str, allowed: AllowedPaths, identity: str | None = None) -> ContentOrigin:
    """Return the origin of a path. `identity` is an object's identity in its committed source offset."""
    return ObjectOrigin(path, allowed, identity) if is_object(path) else FileOrigin(path)


def identity_in(offset: Mapping[str, Any] | None) -> str | None:
    """Return the identity of an object in a committed source offset."""
    found = (offset or {}).get(OBJECT_FIELD)
    return None if found is None else str(found)


def is_at_end(path: str, offset: Mapping[str, Any] | None) -> bool:
    """Return whether a committed source offset is at the end of an object."""
    end = (offset or {}).get(END_FIELD)
    return end is not None and is_object(path) and end == (offset or {}).get(POSITION_FIELD)
