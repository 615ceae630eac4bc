"""The base class of the readers of typed rows: from blocks of a file to records, with errors that name the row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.errors import DataError
from fencepost.connectors.row_types import ddl_of, records_of
from fencepost.connectors.scan import Block, FileRange, open_file, read_blocks


class MisfitError(Exception):
    """A block contains something that is not a row of the schema; the row is located afterwards."""


@dataclass(frozen=True)
class RowReader:
    """An ArrowReader of typed rows. Its splits are FileRanges that end where a record does.

    `columns` are the rows' columns in the order of the value's fields, `keys` those that make the record's key. `allowed` restricts which files are read.

    NOT NULL is checked for columns, not for the fields inside them.
    """

    columns: StructType
    keys: tuple[str, ...] = ()
    allowed: AllowedPaths = ANYWHERE
    quote: ClassVar[int | None] = None

    @property
    def schema(self) -> str:
        """A struct `value`, and `key` where there are key columns."""
        return ddl_of(self.columns, self.keys)

    def read(self, split: FileRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part of a file.

        Raises DataError with the file, line and column of a value that does not fit.
        """
        with open_file(split.path, self.allowed) as file:
            for block in read_blocks(file, split, quote=self.quote, finished=True):
                yield self._records(split.path, self.without_header(block))

    def without_header(self, block: Block) -> Block:
        """Return the block without records that are not rows."""
        return block

    @abstractmethod
    def parse(self, block: Block, columns: Sequence[StructField]) -> list[pa.Array]:
        """Return the rows' values in some of the columns.

        Raises MisfitError or pyarrow.ArrowInvalid if a row does not fit. Must not keep memory of the block.
        """

    @abstractmethod
    def explain(self, record: bytes) -> str:
        """Describe what is wrong with a record that does not fit, beginning with the column if it is one column."""

    def _records(self, path: str, block: Block) -> pa.RecordBatch:
        try:
            return records_of(self.columns, self._columns_of(block), self.keys)
        except (MisfitError, pa.ArrowInvalid):
            raise self._misfit(path, block) from None

    def _columns_of(self, block: Block) -> list[pa.Array]:
        arrays = self.parse(block, self.columns.fields)
        for field, array in zip(self.columns.fields, arrays, strict=True):
            if not field.nullable and array.null_count:
                raise MisfitError(field.name)
        return arrays

    def fits(self, block: Block) -> bool:
        """Return whether all records of a block are rows of the schema."""
        try:
            self._columns_of(block)
        except (MisfitError, pa.ArrowInvalid):
            return False
        return True

    def _misfit(self, path: str, block: Block) -> DataError:
        low, high = 0, len(block.ends) - 1
        while low < high:
            middle = (low + high) // 2
            if self.fits(first_records(block, middle + 1)):
                low = middle + 1
            else:
                high = middle
        start, end = int(block.starts[low]), int(block.ends[low])
        problem = self.explain(bytes(block.data[start:end]))
        return DataError(
            f"The file {path}, line {self._line_number(path, block.offset + start)}, does not fit the schema: {problem}. "
            "Correct the file or the property schema; nothing of this batch was written"
        )

    def _line_number(self, path: str, position: int) -> int:
        """Return the number, from 1, of the line that begins at a position of a file."""
        with open_file(path, self.allowed) as file:
            return 1 + sum(len(block.ends) for block in read_blocks(file, FileRange(path, 0, position), finished=True))


def first_records(block: Block, count: int) -> Block:
    """Return a block's first records."""
    return replace(block, starts=block.starts[:count], ends=block.ends[:count], length=int(block.ends[count - 1]))


def contents(block: Block) -> pa.BufferReader:
    """Return a block's records as a file for pyarrow's parsers."""
    begin = int(block.starts[0]) if len(block.starts) else block.length
    return pa.BufferReader(pa.py_buffer(memoryview(block.data)[begin : block.length]))


def shown(value: object, limit: int = 60) -> str:
    """Return a value as text for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
