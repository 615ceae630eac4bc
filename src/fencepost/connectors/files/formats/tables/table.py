"""The common part of Parquet, ORC and Avro files: a schema, an identity, and separately readable groups of rows.

A group is a row group (Parquet), a stripe (ORC) or a block (Avro). Its `key` is its number, or for Avro the position of
its first byte. A position consists of `group` and `row`, the number of a row in its group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from io import FileIO
from typing import Final

import pyarrow as pa

from fencepost.api.errors import DataError, RetriableError
from fencepost.connectors.files.stores.objects import size_of

BATCH_BYTES: Final = 1 << 20
"""The approximate size of an Arrow batch."""


class TableFormat(StrEnum):
    """The values of the property `format` for files that contain their own schema."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"


class IncompleteTableError(Exception):
    """A file lacks a part that its format requires: it is truncated, or still being written.

    The message names the missing part.
    """


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that can be read separately.

    `next` is the key of the next group. `size` is the approximate number of bytes of this group.
    """

    key: int
    next: int
    rows: int
    size: int


class Table(ABC):
    """An open file. `path` is used in error messages."""

    def __init__(self, path: str, file: FileIO) -> None:
        self.path = path
        self._file = file

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns. Raises DataError for a column that Arrow cannot represent."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Identifies the file. Appended rows do not change it."""

    @property
    @abstractmethod
    def first_key(self) -> int:
        """The key of the first group, even if the file has no groups yet."""

    @property
    @abstractmethod
    def keys(self) -> str:
        """Describes the keys of the groups, for messages."""

    @abstractmethod
    def groups(self, key: int) -> Iterator[Group]:
        """Yield the group with this key, and all groups after it.

        Raises IncompleteTableError if the file ends within a group, and DataError for a key that no group has.
        """

    @abstractmethod
    def batches(self, key: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield at least `rows` rows from the start of a group, also from later groups; fewer only if the file ends.

        Raises the errors of the underlying library.
        """

    @abstractmethod
    def left(self, key: int) -> int:
        """Return the approximate number of bytes of a group and all later groups, counted as in `Group.size`."""

    def rows(self, key: int, skip: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield `count` rows, after skipping the first `skip` rows of a group. Rows of later groups may follow.

        Raises DataError if the file is damaged or has fewer rows.
        """
        left = count
        try:
            for batch in self.batches(key, skip + count):
                part = batch.slice(skip, left)
                skip = max(0, skip - batch.num_rows)
                left -= part.num_rows
                if part.num_rows:
                    yield part
                if not left:
                    return
        except (DataError, RetriableError):
            raise
        except Exception as error:
            raise self._damaged(error) from error
        raise DataError(f"The file {self.path} has {left} rows less than at the last check: it was replaced")

    def _damaged(self, error: Exception) -> DataError:
        return DataError(
            f"The file {self.path} cannot be read: {type(error).__name__}: {error}. Bring the right file, or remove this one"
        )

    def _no_group(self, key: int) -> DataError:
        return DataError(
            f"The file {self.path} has no group of rows {key}: it was truncated or replaced, or the offset is wrong. Bring "
            "the former file back, or reset the connector's offsets to read the file that is there from its start"
        )


def identity_of_tail(file: FileIO, length: int) -> str:
    """Return a file's size with a hash of its last `length` bytes: its footer contains the positions of all data."""
    size = size_of(file)
    file.seek(max(0, size - length))
    return f"{size}-{blake2b(file.read(), digest_size=8).hexdigest()}"
