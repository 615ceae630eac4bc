"""The base class of the readers of typed rows: converts blocks of a file to records, with errors that name the row."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.errors import DataError
from fencepost.api.record import RefusedRow
from fencepost.connectors.files.content.csv_quotes import Quoting
from fencepost.connectors.files.content.held import HeldGroup, line_at, open_range
from fencepost.connectors.files.content.ranges import Block, FileRange, read_blocks
from fencepost.connectors.rows.record_mapping import RecordColumns
from fencepost.connectors.rows.row_types import MisfitError, arrow_type

_BLOCK_BYTES: Final = 4 << 20
"""The number of bytes of one read.

Reading, transforms and converters make some calls for each column of a block, however small the block is.
"""

NOT_UTF_8: Final = "it is not UTF-8: set the property encoding to the file's"


@dataclass(frozen=True)
class RowReader:
    """A TolerantReader of typed rows. Its splits are FileRanges that end at the end of a record.

    `columns` are the rows' columns in the order of the value's fields; `record` maps columns to the parts of the
    record. `allowed` restricts which files may be read.

    NOT NULL is checked for columns, but not for nested fields.
    """

    columns: StructType
    record: RecordColumns = RecordColumns()  # noqa: RUF009 - it is immutable
    allowed: AllowedPaths = ANYWHERE

    @property
    def quoting(self) -> Quoting | None:
        """The quoting that decides which line ends may be part of a record; None if each line end ends a record."""
        return None

    @property
    def schema(self) -> str:
        """A struct `value`, and the columns that `record` defines."""
        return self.record.ddl(self.columns)

    def read(self, split: FileRange | HeldGroup) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part of a file, or of a group of parts of several files.

        Raises DataError with the file, line and column of a value that does not fit.
        """
        if isinstance(split, HeldGroup):
            yield pa.concat_batches([rows for part in split.parts for rows in self.read(part)])
            return
        for block in self._blocks(split):
            yield self._records(split, block)

    def read_tolerant(self, split: FileRange | HeldGroup) -> Iterator[pa.RecordBatch | list[RefusedRow]]:
        """Yield rows as `read` does. Also yield the records that are not valid rows, with file, position and line."""
        if isinstance(split, HeldGroup):
            found = [found for part in split.parts for found in self.read_tolerant(part)]
            yield from (refused for refused in found if isinstance(refused, list))
            yield pa.concat_batches([rows for rows in found if isinstance(rows, pa.RecordBatch)])
            return
        for block in self._blocks(split):
            batch, refused = self._sorted(split, block)
            if refused:
                yield refused
            yield batch

    def place(self, split: FileRange | HeldGroup, row: int) -> dict[str, str]:
        """Return the place of a row of a split, given the row's number from 0.

        Raises DataError as `read` does, and for a row beyond the split.
        """
        if isinstance(split, HeldGroup):
            split, row = split.part_of(row, self)
        for block in self._blocks(split):
            if row < (rows := self._of(block).num_rows):
                # Empty lines are not rows, so the row's number may differ from the record's index.
                index = bisect_right(
                    range(len(block.ends)),
                    row,
                    key=lambda last: self._of(some_records(block, 0, last + 1)).num_rows,
                )
                return self._place(split, block, index)
            row -= rows
        raise DataError(f"The file {split.path} has fewer rows than before")

    def without_header(self, block: Block) -> Block:
        """Return the block without its header and a byte order mark, if the format has them."""
        return block

    @abstractmethod
    def parse(self, block: Block, columns: Sequence[StructField]) -> list[pa.Array]:
        """Return the rows' values in the given columns.

        Raises MisfitError or pyarrow.ArrowInvalid if a row does not fit. The result must not refer to the block's
        memory.
        """

    @abstractmethod
    def explain(self, record: bytes, error: Exception, line: int) -> str:
        """Describe why a record does not fit, beginning with the column if only one column is wrong.

        `error` is the error from reading the record alone; `line` is the number of the record's first line.
        """

    def _blocks(self, split: FileRange) -> Iterator[Block]:
        with open_range(split, self.allowed) as file:
            for block in read_blocks(file, split, quoting=self.quoting, finished=True, block_bytes=_BLOCK_BYTES):
                yield self.without_header(block)

    def _records(self, split: FileRange, block: Block) -> pa.RecordBatch:
        try:
            return self._of(block)
        except (MisfitError, pa.ArrowInvalid):
            raise self._misfit(split, block) from None

    def _sorted(self, split: FileRange, block: Block) -> tuple[pa.RecordBatch, list[RefusedRow]]:
        good: list[pa.RecordBatch] = []
        refused: list[RefusedRow] = []
        for first, _, found in self._passing(block, 0, len(block.ends)):
            if isinstance(found, Exception):
                refused.append(self._refused(split, block, first, found))
            else:
                good.append(found)
        if len(good) == 1:
            return good[0], refused
        joined = pa.Table.from_batches(good, good[0].schema if good else self._no_rows().schema)
        return next(iter(joined.combine_chunks().to_batches()), self._no_rows()), refused

    def _passing(
        self, block: Block, first: int, last: int, *, known: bool = False
    ) -> Iterator[tuple[int, int, pa.RecordBatch | Exception]]:
        """Yield a block's records in order: ranges of valid rows, or one invalid record with its error.

        `known` says that the range from `first` to `last` certainly has an invalid record.
        """
        if not known or last - first == 1:
            try:
                rows = self._of(some_records(block, first, last))
            except (MisfitError, pa.ArrowInvalid) as error:
                if last - first == 1:
                    yield first, last, error
                    return
            else:
                yield first, last, rows
                return
        middle = (first + last) // 2
        left_passed = False
        for part in self._passing(block, first, middle):
            left_passed = part[1] - part[0] == middle - first and not isinstance(part[2], Exception)
            yield part
        yield from self._passing(block, middle, last, known=left_passed)

    def _refused(self, split: FileRange, block: Block, index: int, error: Exception) -> RefusedRow:
        raw = bytes(block.data[int(block.starts[index]) : int(block.ends[index])])
        place = self._place(split, block, index)
        return RefusedRow(raw, self.explain(raw, error, int(place["line"])), place)

    def _place(self, split: FileRange, block: Block, index: int) -> dict[str, str]:
        position = block.offset + int(block.starts[index])
        line = line_at(split, position, self.allowed)
        return {"file": split.path, "position": str(position), "line": str(line)}

    def _no_rows(self) -> pa.RecordBatch:
        columns = [pa.array([], arrow_type(field.dataType)) for field in self.columns.fields]
        return self.record.records(self.columns, columns)

    def _of(self, block: Block) -> pa.RecordBatch:
        arrays = self.parse(block, self.columns.fields)
        for field, array in zip(self.columns.fields, arrays, strict=True):
            if not field.nullable and array.null_count:
                raise MisfitError
        return self.record.records(self.columns, arrays)

    def fits(self, block: Block) -> bool:
        """Return whether all records of a block are rows of the schema."""
        try:
            self._of(block)
        except (MisfitError, pa.ArrowInvalid):
            return False
        return True

    def _misfit(self, split: FileRange, block: Block) -> DataError:
        parts = self._passing(block, 0, len(block.ends))
        index, error = next((part[0], part[2]) for part in parts if isinstance(part[2], Exception))
        start, end = int(block.starts[index]), int(block.ends[index])
        line = line_at(split, block.offset + start, self.allowed)
        problem = self.explain(bytes(block.data[start:end]), error, line)
        return DataError(
            f"The file {split.path}, line {line}, does not fit the schema: {problem}. Correct the file or the property schema, "
            "or skip such rows with errors.tolerance=all; nothing of this batch was written"
        )


def some_records(block: Block, first: int, last: int) -> Block:
    """Return a block's records from `first` to before `last`. A block without records is returned unchanged."""
    if first == last:
        return block
    starts, ends = block.starts[first:last], block.ends[first:last]
    return replace(block, starts=starts, ends=ends, length=int(ends[-1]))


def record_bytes(block: Block) -> memoryview:
    """Return the bytes of a block's records, without the bytes before the first record."""
    begin = int(block.starts[0]) if len(block.starts) else block.length
    return memoryview(block.data)[begin : block.length]


def contents(block: Block) -> pa.BufferReader:
    """Return a block's records as a file for pyarrow's parsers."""
    return pa.BufferReader(pa.py_buffer(record_bytes(block)))


def is_utf8(record: bytes) -> bool:
    """Return whether a record is valid UTF-8."""
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True


def shown(value: object, limit: int = 60) -> str:
    """Return a value as text for an error message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
