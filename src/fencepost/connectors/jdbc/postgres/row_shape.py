"""Rows of PostgreSQL as Arrow, from COPY in the formats csv and binary.

The first column is not part of the row. It is a whole number (such as the transaction that wrote the row), a text, or
null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.csv as pcsv
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.pg_types import parsed_by_arrow, quick_column, slow_column
from fencepost.connectors.jdbc.postgres.binary import BinaryForm, decoded, forms_of
from fencepost.connectors.jdbc.tables import JdbcColumn
from fencepost.connectors.postgres.server.copy_blocks import Messages
from fencepost.connectors.rows.record_mapping import RecordColumns
from fencepost.connectors.rows.row_types import MisfitError

FIRST_COLUMN: Final = pa.int64()
"""The type of a first column that is a whole number or null."""

_CONVERT = {
    "null_values": [""],
    "strings_can_be_null": True,
    # An empty text is quoted in CSV; a null is not.
    "quoted_strings_can_be_null": False,
    "true_values": ["t"],
    "false_values": ["f"],
}


@dataclass(frozen=True, slots=True)
class RowShape:
    """The columns of a table or query. `title` names the table or query: `the table public.t`. It can be pickled.

    `record` maps columns to the key, topic, timestamp and headers of a record.
    """

    title: str
    columns: tuple[JdbcColumn, ...]
    record: RecordColumns = RecordColumns()  # noqa: RUF009 - it is immutable

    @property
    def struct(self) -> t.StructType:
        """The type of a record's value."""
        return t.StructType(
            [t.StructField(column.name, column.becomes, not column.not_null) for column in self.columns]
        )

    @property
    def schema(self) -> str:
        """The columns of a SourceBatch as DDL."""
        return self.record.ddl(self.struct)

    def parse(self, text: bytes | pa.Buffer, first: pa.DataType = FIRST_COLUMN) -> tuple[pa.Array, pa.RecordBatch]:
        """Parse CSV; return the first column, which is of the type `first`, and the rows as records.

        Raises DataError for values that cannot be represented.
        """
        try:
            firsts, arrays = self._quickly(text, first)
        except (DataError, ValueError):
            firsts, arrays = self._slowly(text, first)
        if not arrays:
            return firsts, pa.record_batch({"value": pa.nulls(len(firsts), pa.struct([]))})
        return firsts, self._records(arrays)

    @property
    def forms(self) -> tuple[BinaryForm, ...] | None:
        """How the columns are transferred in the binary format, None if they cannot be transferred in it."""
        return forms_of(self.columns) if self.columns else None

    def decode(self, messages: Messages) -> pa.RecordBatch:
        """Return rows in the binary format as records. Raises DataError for values that cannot be represented."""
        return self._records(decoded(messages, self.columns, self.forms or (), self.title))

    def _records(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        try:
            return self.record.records(self.struct, arrays)
        except MisfitError as error:
            raise DataError(
                f"A row of {self.title} cannot be made a record: {error}. Correct it, or leave it out with a query"
            ) from None

    def _quickly(self, text: bytes | pa.Buffer, first: pa.DataType) -> tuple[pa.Array, list[pa.Array]]:
        kinds = [column.becomes for column in self.columns]
        firsts, *arrays = _read(text, [first, *(parsed_by_arrow(kind) or pa.string() for kind in kinds)])
        return firsts, [quick_column(kind, array) for kind, array in zip(kinds, arrays, strict=True)]

    def _slowly(self, text: bytes | pa.Buffer, first: pa.DataType) -> tuple[pa.Array, list[pa.Array]]:
        firsts, *arrays = _read(text, [first] + [pa.string()] * len(self.columns))
        return firsts, [
            slow_column(column.becomes, array.to_pylist(), f"The column {column.label} of {self.title}")
            for column, array in zip(self.columns, arrays, strict=True)
        ]


def _read(text: bytes | pa.Buffer, types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Parse CSV into columns of these types. Raises pyarrow.ArrowInvalid, which is a ValueError."""
    if not text:
        return [pa.nulls(0, kind) for kind in types]
    names = [str(position) for position in range(len(types))]
    table = pcsv.read_csv(
        pa.py_buffer(text),
        # All text is one block: a value may be longer than any fixed size.
        pcsv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False),
        pcsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pcsv.ConvertOptions(column_types=dict(zip(names, types, strict=True)), **_CONVERT),
    )
    return [column.combine_chunks() for column in table.columns]


@dataclass(frozen=True, slots=True)
class RowsInMemory:
    """An ArrowReader whose splits contain the rows themselves."""

    schema: str

    def read(self, split: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the split."""
        yield split
