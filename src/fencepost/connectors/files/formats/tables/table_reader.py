"""Reads rows of Parquet, ORC and Avro files where they are converted: in the worker, or on Spark's executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import FileIO
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.errors import DataError
from fencepost.api.record import RefusedRow
from fencepost.connectors.files.content.ranges import open_file
from fencepost.connectors.files.formats.tables.avro_table import AvroTable
from fencepost.connectors.files.formats.tables.orc_table import OrcTable
from fencepost.connectors.files.formats.tables.parquet_table import ParquetTable
from fencepost.connectors.files.formats.tables.table import IncompleteTableError, Table, TableFormat
from fencepost.connectors.files.stores.objects import check_unchanged
from fencepost.connectors.rows.arrow_columns import records_or_refused
from fencepost.connectors.rows.record_mapping import RecordColumns

_TABLES: Final[dict[TableFormat, Callable[[str, FileIO], Table]]] = {
    TableFormat.PARQUET: ParquetTable,
    TableFormat.ORC: OrcTable,
    TableFormat.AVRO: AvroTable,
}


@contextmanager
def open_table(path: str, form: TableFormat, allowed: AllowedPaths) -> Iterator[Table]:
    """Open a file. Raises DataError if it cannot be read, and IncompleteTableError if it is incomplete."""
    with open_file(path, allowed) as file:
        yield _TABLES[form](path, file)
        check_unchanged(file)


@dataclass(frozen=True, slots=True)
class RowRange:
    """A split: `rows` rows of a file from the start of a group, after skipping `skip`.

    `size` is their approximate number of bytes, `identity` is the file's.
    """

    path: str
    group: int
    skip: int
    rows: int
    size: int
    identity: str


@dataclass(frozen=True)
class TableReader:
    """A TolerantReader of rows. Its splits are RowRanges.

    `columns` are the file's columns, `record` maps columns to the parts of the record.
    """

    form: TableFormat
    columns: StructType
    record: RecordColumns = RecordColumns()  # noqa: RUF009 - it is immutable
    allowed: AllowedPaths = ANYWHERE

    @property
    def schema(self) -> str:
        """A struct `value`, and the columns that `record` makes."""
        return self.record.ddl(self.columns)

    def read(self, split: RowRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split. Raises DataError for a row that cannot become a record."""
        for part in self.read_tolerant(split):
            if isinstance(part, list):
                place = part[0].place
                raise DataError(
                    f"The file {split.path}, row {place['row']} of the group {place['group']}, makes no record: "
                    f"{part[0].reason}. Correct the file, or skip such rows with errors.tolerance=all; nothing of this "
                    "batch was written"
                )
            yield part

    def place(self, split: RowRange, row: int) -> dict[str, str]:
        """Return where a row of a split is, by its number from 0."""
        return _place(split, split.skip + row)

    def read_tolerant(self, split: RowRange) -> Iterator[pa.RecordBatch | list[RefusedRow]]:
        """Yield the rows of a split, and as JSON those without topic or timestamp or with a value that does not fit."""
        row, place = split.skip, partial(_place, split)
        try:
            with open_table(split.path, self.form, self.allowed) as table:
                if table.identity != split.identity:
                    raise DataError(f"The file {split.path} was replaced while it was read: restart the task")
                for batch in table.rows(split.group, split.skip, split.rows):
                    yield from records_or_refused(batch, self.columns, self.record, place, first=row)
                    row += batch.num_rows
        except IncompleteTableError as error:
            raise DataError(f"The file {split.path} was truncated while it was read: {error}") from error


def _place(split: RowRange, number: int) -> dict[str, str]:
    return {"file": split.path, "group": str(split.group), "row": str(number)}
