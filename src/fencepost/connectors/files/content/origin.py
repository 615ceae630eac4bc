"""Where the bytes of a file are: in a file system, where it may grow, or in a store of objects.

An object is whole when it is there, and does not grow. Its identity is its size and ETag: it is compared before anything
that was read of it is returned, and is in the source offset of text: `{"position": ..., "object": "..."}`. When the server
does not answer, RetriableError is raised, and a later read goes on from the same position. An offset with the `end` of an
object is at its end if the position is the same: the store may take the object away then.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.connectors.files.content.growing import POSITION_FIELD, Awaited
from fencepost.connectors.files.content.identity import Stamp, stamp_of
from fencepost.connectors.files.content.ranges import open_file, unreadable
from fencepost.connectors.files.stores.objects import is_object, size_and_time

OBJECT_FIELD: Final = "object"
END_FIELD: Final = "end"


class ContentOrigin(Protocol):
    """Where the bytes of one file are. `whole` is whether it is always complete, so that it cannot grow."""

    whole: ClassVar[bool]
    path: str

    def is_missing(self, *, whole: bool = False) -> bool:
        """Return whether the file does not exist yet. With `whole` it must exist: else DataError is raised."""

    def stamp(self) -> Stamp | None:
        """Return a value that differs if the file was changed or replaced, None without a file.

        Raises DataError and RetriableError.
        """

    def check(self, position: int, opened: str | None = None) -> None:
        """Raise DataError if the file is another one than the one that was read up to the position.

        `opened` is the identity of the file as it was opened; without it, the file that is there now is compared.
        """

    @property
    def offset(self) -> dict[str, Any]:
        """The fields of a source offset that say which file it is."""


class FileOrigin(Awaited):
    """A file of a file system. Which file it is, is followed beside it (`FileTrack`)."""

    whole: ClassVar[bool] = False

    def stamp(self) -> Stamp | None:
        """Return inode, time of the last change, and size."""
        try:
            return stamp_of(os.stat(self.path))  # noqa: PTH116 - called often: spares making a Path each time
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(self.path, error) from error

    def check(self, position: int, opened: str | None = None) -> None:
        """Do nothing."""

    @property
    def offset(self) -> dict[str, Any]:
        """No fields."""
        return {}


class ObjectOrigin:
    """An object of a store. `identity` belongs to the object that was read, None before the first read."""

    whole: ClassVar[bool] = True

    def __init__(self, path: str, allowed: AllowedPaths, identity: str | None) -> None:
        self.path = path
        self._allowed = allowed
        self._identity = identity

    def is_missing(self, *, whole: bool = False) -> bool:  # noqa: ARG002 - as in `ContentOrigin`
        """Return False: reading a missing object fails."""
        return False

    def stamp(self) -> Stamp:
        """Return 0, the time of the last change, and the size. Raises DataError if there is no object."""
        status = size_and_time(self.path)
        if status is None:
            raise DataError(
                f"The object {self.path} does not exist: bring it back, or reset the connector's offsets if it is not to be "
                "read"
            )
        size, changed = status
        return 0, int(changed), size

    def check(self, position: int, opened: str | None = None) -> None:
        """Compare the identity, and keep the first one."""
        found = opened if opened is not None else self._identity_of_stored()
        if self._identity not in (None, found):
            raise DataError(
                f"The object {self.path} was replaced after it was read up to byte {position} of its content. Give new "
                "content a new name. Bring the former object back, or reset the connector's offsets to read the one that is "
                "there from its start"
            )
        self._identity = found

    def _identity_of_stored(self) -> str:
        with open_file(self.path, self._allowed) as file:
            return str(getattr(file, "identity"))  # noqa: B009 - open_file declares FileIO for objects, too

    @property
    def offset(self) -> dict[str, Any]:
        """The identity."""
        return {OBJECT_FIELD: self._identity} if self._identity else {}


def origin_of(path: str, allowed: AllowedPaths, identity: str | None = None) -> ContentOrigin:
    """Return the origin of a path. `identity` is the one in the committed source offset of an object."""
    return ObjectOrigin(path, allowed, identity) if is_object(path) else FileOrigin(path)


def identity_in(offset: Mapping[str, Any] | None) -> str | None:
    """Return the identity of an object in a committed source offset."""
    found = (offset or {}).get(OBJECT_FIELD)
    return None if found is None else str(found)


def is_at_end(path: str, offset: Mapping[str, Any] | None) -> bool:
    """Return whether a committed source offset is the one at the end of an object."""
    end = (offset or {}).get(END_FIELD)
    return end is not None and is_object(path) and end == (offset or {}).get(POSITION_FIELD)
