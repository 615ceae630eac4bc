"""The common part of Parquet, ORC and Avro files: a schema, an identity, and groups of rows that can be read alone.

A group is a row group (Parquet), a stripe (ORC) or a block (Avro). Its `key` is its number, or the position of its
first byte (Avro). A position is `group` and `row`, the number of a row in its group.
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
    """The values of the property `format` for these files."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"


class IncompleteTableError(Exception):
    """A file ends before its format does: it is truncated, or still being written.

    The message names the missing part.
    """


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that can be read alone. `next` is the key of the next group, `size` its approximate number of bytes."""

    key: int
    next: int
    rows: int
    size: int


class Table(ABC):
    """An open file. `path` is for messages."""

    def __init__(self, path: str, file: FileIO) -> None:
        self.path = path
        self._file = file

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns. Raises DataError for one without a form in Arrow."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Identifies the file. Appended rows do not change it."""

    @property
    @abstractmethod
    def first_key(self) -> int:
        """The key of the first group, also if there is no group yet."""

    @abstractmethod
    def groups(self, key: int) -> Iterator[Group]:
        """Yield the group with a key, and all groups after it.

        Raises IncompleteTableError where the file ends within a group, and DataError for a key that no group has.
        """

    @abstractmethod
    def batches(self, key: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield at least `rows` rows from the start of a group, or fewer at the end.

        Raises the errors of the library.
        """

    @abstractmethod
    def left(self, key: int) -> int:
        """Return the approximate bytes of a group and all later ones, in the unit of their `size`."""

    def rows(self, key: int, skip: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield `count` rows from the start of a group, after skipping `skip`.

        Raises DataError if the file is damaged, or has fewer.
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
        raise DataError(f"The file {self.path} has {left} rows less than when the task looked: it was replaced")

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
    """Return a file's size with a hash of its last `length` bytes: its footer has the positions of all data."""
    size = size_of(file)
    file.seek(max(0, size - length))
    return f"{size}-{blake2b(file.read(), digest_size=8).hexdigest()}"
