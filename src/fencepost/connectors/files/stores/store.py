"""The interface of all stores of objects.

A path is the part of a URL after the host or bucket, without the / between them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator


class StoredObject(ABC):
    """An object, open for reading. `size` is in bytes; `identity` differs between objects that replace each other."""

    size: int
    identity: str

    @abstractmethod
    def read_at(self, count: int, position: int) -> bytes:
        """Return the bytes at a position, fewer at the end."""


class Store(ABC):
    """A bucket, container or file system. Its methods raise the errors of the client's library."""

    passing: re.Pattern[str]
    """Matches the messages of errors that may pass."""
    rights: str
    """How to grant a process the right to read, for messages."""

    @abstractmethod
    def status(self, path: str) -> tuple[int, float] | None:
        """Return an object's size, and its last change in seconds since 1970; None if it does not exist."""

    @abstractmethod
    def below(self, path: str, *, recursive: bool) -> Iterator[tuple[str, float]]:
        """Yield the paths of the objects in a directory, with the times of their last changes."""

    def is_missing(self) -> bool:
        """Return whether the bucket or container itself is missing, as far as this process may see."""
        return False

    @abstractmethod
    def open(self, path: str) -> StoredObject:
        """Open an object. Raises FileNotFoundError if it does not exist."""

    @abstractmethod
    def identity(self, path: str) -> str:
        """Return the identity of the current object. Raises FileNotFoundError if it does not exist."""
