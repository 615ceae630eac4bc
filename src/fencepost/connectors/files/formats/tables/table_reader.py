"""Reads rows of Parquet, ORC and Avro files in the process that converts them: the worker, or a Spark executor."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from operator import itemgetter
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
    """A split: `rows` rows of a file, after skipping the first `skip` rows of a group. Rows of later groups may follow.

    `size` is the approximate number of bytes of the rows, `identity` is the file's identity. `later` has, for each later
    group, the number of its first row and its key; rows are numbered from the first row of `group`.
    """

    path: str
    group: int
    skip: int
    rows: int
    size: int
    identity: str
    later: tuple[tuple[int, int], ...] = ()

    def place(self, number: int) -> dict[str, str]:
        """Return the place of a row, given its number."""
        before = bisect_right(self.later, number, key=itemgetter(0))
        first, group = self.later[before - 1] if before else (0, self.group)
        return {"file": self.path, "group": str(group), "row": str(number - first)}


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
        """A struct `value`, and the columns that `record` defines."""
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
        """Return the place of a row of a split, given the row's number from 0."""
        return split.place(split.skip + row)

    def read_tolerant(self, split: RowRange) -> Iterator[pa.RecordBatch | list[RefusedRow]]:
        """Yield the rows of a split.

        A row without topic or timestamp, or with a value that does not fit, is yielded as a RefusedRow.
        """
        row = split.skip
        try:
            with open_table(split.path, self.form, self.allowed) as table:
                if table.identity != split.identity:
                    raise DataError(f"The file {split.path} was replaced while it was read: restart the task")
                for batch in table.rows(split.group, split.skip, split.rows):
                    yield from records_or_refused(batch, self.columns, self.record, split.place, first=row)
                    row += batch.num_rows
        except IncompleteTableError as error:
            raise DataError(f"The file {split.path} was truncated while it was read: {error}") from error
