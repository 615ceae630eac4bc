"""What every store of objects does. A path is what follows the host or bucket in a URL, without the / between them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator


class StoredObject(ABC):
    """An object, open for reading. `size` is in bytes; `identity` differs for objects that take each other's place."""

    size: int
    identity: str

    @abstractmethod
    def read_at(self, count: int, position: int) -> bytes:
        """Return the bytes at a position, fewer at the end."""


class Store(ABC):
    """A bucket, container or file system. Its methods raise what the client's library raises."""

    passing: re.Pattern[str]
    """What the texts of errors have that may pass."""
    rights: str
    """How a process is given the right to read, for messages."""

    @abstractmethod
    def status(self, path: str) -> tuple[int, float] | None:
        """Return an object's size, and the time of its last change in seconds since 1970; None if there is none."""

    @abstractmethod
    def below(self, path: str, *, recursive: bool) -> Iterator[tuple[str, float]]:
        """Yield the paths of the objects in a directory, with the times of their last changes."""

    def is_missing(self) -> bool:
        """Return whether the bucket or container itself does not exist, as far as this process may know."""
        return False

    @abstractmethod
    def open(self, path: str) -> StoredObject:
        """Open an object. Raises FileNotFoundError if there is none."""

    @abstractmethod
    def identity(self, path: str) -> str:
        """Return the identity of the object that is there. Raises FileNotFoundError if there is none."""
