"""The interface of all object stores.

A path is the part of a URL after the host or bucket, without the / between them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator


class StoredObject(ABC):
    """An object, open for reading. `size` is in bytes. `identity` changes when the object is replaced."""

    size: int
    identity: str

    @abstractmethod
    def read_at(self, count: int, position: int) -> bytes:
        """Return the bytes at a position, fewer at the end of the object."""


class Store(ABC):
    """A bucket, container or file system. Its methods raise the errors of the store's client library."""

    passing: re.Pattern[str]
    """Matches the messages of errors that may be temporary."""
    rights: str
    """How to grant a process the right to read objects, as text for error messages."""

    @abstractmethod
    def status(self, path: str) -> tuple[int, float] | None:
        """Return an object's size, and its modification time in seconds since 1970; None if there is no such object."""

    @abstractmethod
    def below(self, path: str, *, recursive: bool) -> Iterator[tuple[str, float]]:
        """Yield the paths of the objects in a directory, with their modification times."""

    def is_missing(self) -> bool:
        """Return whether the bucket or container itself does not exist, as far as this process's permissions show."""
        return False

    @abstractmethod
    def open(self, path: str) -> StoredObject:
        """Open an object. Raises FileNotFoundError if it does not exist."""

    @abstractmethod
    def identity(self, path: str) -> str:
        """Return the identity of the current object. Raises FileNotFoundError if it does not exist."""
