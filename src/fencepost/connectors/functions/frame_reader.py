"""Makes batches from the frames that a source function yields.

The columns reach the converters unchanged, as Arrow data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from fencepost.api.errors import DataError
from fencepost.api.record import RefusedRow, SourceBatch, SourceOffset, SourcePartition
from fencepost.connectors.functions.frames import as_table
from fencepost.connectors.rows.arrow_columns import records_or_refused, spark_columns
from fencepost.connectors.rows.record_mapping import RecordColumns

# This many rows are converted together: their values, and the texts made of these, fit into a processor's cache.
_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class FrameReader:
    """A TolerantReader of frames in memory. A split is a slice of a frame, with the number of the slice's first row.

    `where` names the frame in error messages.
    """

    where: str
    columns: StructType
    record: RecordColumns

    @property
    def schema(self) -> str:
        """A struct `value`, and the columns that `record` defines."""
        # A schema needs a column. A frame without columns has no rows, so the column's type is irrelevant.
        return self.record.ddl(self.columns) if self.columns.fields else "value STRING"

    def read(self, split: tuple[int, pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises DataError for a row that cannot become a record."""
        for part in self.read_tolerant(split):
            if isinstance(part, list):
                raise DataError(
                    f"The row {part[0].place['row']} of {self.where} makes no record: {part[0].reason}. Correct it in the "
                    "function, or skip such rows with errors.tolerance=all; nothing of this batch was written"
                )
            yield part

    def read_tolerant(self, split: tuple[int, pa.RecordBatch]) -> Iterator[pa.RecordBatch | list[RefusedRow]]:
        """Yield the rows. A row without topic or timestamp, or with a value that does not fit, becomes a RefusedRow."""
        first, rows = split
        yield from records_or_refused(
            rows, self.columns, self.record, lambda row: {"row": str(row)}, exact=True, first=first
        )


class FrameBatches:
    """Makes a batch of each frame.

    The columns of the previous frame are kept, because most frames have the same columns.
    """

    def __init__(self, record: RecordColumns, where: str) -> None:
        self._record = record
        self._where = where
        self._schema: pa.Schema | None = None
        self._reader: FrameReader | None = None

    def batch(self, frame: Any, partition: SourcePartition, offset: SourceOffset) -> SourceBatch:
        """Return a frame's batch. The worker writes it without Spark, because the rows are in the worker's memory.

        Raises DataError for columns that Connect's data types cannot represent, and ConfigError for properties that
        name columns which the frame does not have.
        """
        table = as_table(frame, self._where)
        splits: list[tuple[int, pa.RecordBatch]] = []
        for rows in table.to_batches(_ROWS) if table.num_columns else ():
            splits.append((splits[-1][0] + splits[-1][1].num_rows if splits else 0, rows))
        return SourceBatch.of_reader(self._reader_of(table.schema), splits, [(partition, offset)], bytes=0)

    def _reader_of(self, schema: pa.Schema) -> FrameReader:
        if self._reader is None or self._schema is None or not schema.equals(self._schema):
            columns = spark_columns(schema, self._where)
            if columns.fields:
                self._record.check(columns)
            self._schema, self._reader = schema, FrameReader(self._where, columns, self._record)
        return self._reader
