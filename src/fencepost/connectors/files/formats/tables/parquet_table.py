"""Parquet files. https://parquet.apache.org/docs/file-format/."""

from __future__ import annotations

from collections.abc import Iterator
from io import FileIO
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from fencepost.connectors.files.formats.tables.table import (
    BATCH_BYTES,
    Group,
    IncompleteTableError,
    Table,
    identity_of_tail,
)

_MOST_ROWS: Final = 1 << 16
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
# The file ends with it.
_WIDTH_OF_TEXT: Final = 4


class ParquetTable(Table):
    """A Parquet file. A group is a row group; its size is the size of its values before compression and encoding.

    For texts in a dictionary the size is less exact: each counts at least 4 bytes.

    Raises IncompleteTableError for a file without a footer.
    """

    def __init__(self, path: str, file: FileIO) -> None:
        super().__init__(path, file)
        try:
            # INT96 from old writers may be a time that nanoseconds cannot hold.
            self._table = parquet.ParquetFile(file, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
        except pa.ArrowInvalid as error:
            raise IncompleteTableError(str(error)) from error
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(error) from error
        self._metadata = self._table.metadata
        schema = self._metadata.schema
        self._row_width = sum(_width(schema.column(number)) for number in range(len(schema)))

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._table.schema_arrow

    @property
    def identity(self) -> str:
        """A hash of the footer."""
        return identity_of_tail(self._file, self._metadata.serialized_size + 8)

    @property
    def first_key(self) -> int:
        """0."""
        return 0

    def groups(self, key: int) -> Iterator[Group]:
        """Yield the row groups."""
        if not 0 <= key <= self._metadata.num_row_groups:
            raise self._no_group(key)
        for number in range(key, self._metadata.num_row_groups):
            group = self._metadata.row_group(number)
            yield Group(
                number, number + 1, group.num_rows, max(group.total_byte_size, group.num_rows * self._row_width)
            )

    def batches(self, key: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of about a MiB."""
        del rows
        for group in self.groups(key):
            together = max(1, min(_MOST_ROWS, BATCH_BYTES * group.rows // max(1, group.size)))
            yield from self._table.iter_batches(batch_size=together, row_groups=[group.key], use_threads=False)

    def left(self, key: int) -> int:
        """Return the size of the row groups from one on."""
        return sum(group.size for group in self.groups(key))


def _width(column: parquet.ColumnSchema) -> int:
    """Return how many bytes a value has; of a text the least."""
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return int(column.length)
    return _WIDTHS.get(column.physical_type, _WIDTH_OF_TEXT)
