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
# The minimum size of a text in bytes: its length field.
_WIDTH_OF_TEXT: Final = 4


class ParquetTable(Table):
    """A Parquet file. A group is a row group; its size is the size of its values before compression and encoding.

    The size is less exact for texts in a dictionary: each text counts as at least 4 bytes.

    Raises IncompleteTableError for a file without a footer.
    """

    def __init__(self, path: str, file: FileIO) -> None:
        super().__init__(path, file)
        try:
            # Nanoseconds cannot represent some INT96 times from old writers.
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
        """The number of the first row group, 0."""
        return 0

    @property
    def keys(self) -> str:
        """How many row groups there are."""
        return f"{self._metadata.num_row_groups} groups, with numbers from 0 on"

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
        """Yield the rows in batches of about one MiB."""
        del rows
        for group in self.groups(key):
            together = max(1, min(_MOST_ROWS, BATCH_BYTES * group.rows // max(1, group.size)))
            yield from self._table.iter_batches(batch_size=together, row_groups=[group.key], use_threads=False)

    def left(self, key: int) -> int:
        """Return the size of a row group and all later ones."""
        return sum(group.size for group in self.groups(key))


def _width(column: parquet.ColumnSchema) -> int:
    """Return the number of bytes of a value; for a text, the minimum."""
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return int(column.length)
    return _WIDTHS.get(column.physical_type, _WIDTH_OF_TEXT)
