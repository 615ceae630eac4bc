"""Reads typed rows from JSON lines (one JSON object a line), with pyarrow's parser."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyarrow import json as arrow_json
from pyspark.sql import types as t

from fencepost.api.errors import ConfigError
from fencepost.api.foreign_json import parse_json
from fencepost.connectors.record_columns import RecordColumns
from fencepost.connectors.row_reader import RowReader, contents, shown
from fencepost.connectors.row_types import MisfitError, arrow_type, infinities
from fencepost.connectors.scan import Block

_DOUBTFUL: Final = np.frombuffer(b" \tn" + codecs.BOM_UTF8[:1], np.uint8)
"""The first bytes of lines that may be blank or null."""


@dataclass(frozen=True)
class JsonLinesReader(RowReader):
    """A field that an object does not have is null; one that the schema does not have is an error.

    Empty lines are skipped. DATE, TIMESTAMP and TIMESTAMP_NTZ are read from ISO 8601 texts, without a zone as UTC;
    DECIMAL from numbers or texts.
    """

    def parse(self, block: Block, columns: Sequence[t.StructField]) -> list[pa.Array]:
        """Return the rows' values in some of the columns."""
        rows = _count_filled(block)
        if rows == 0:
            return [pa.array([], arrow_type(column.dataType)) for column in columns]
        _check_utf8(block)
        table = _table(block, [(column.name, _parsed_type(column.dataType)) for column in columns])
        if table.num_rows != rows:
            raise MisfitError("not one object a line")
        found = _count_infinities(table)
        # The parser takes a number that is too large for FLOAT for infinity.
        if found and found > _count_infinities(
            _table(block, [(name, _doubles(table[name].type)) for name in table.column_names])
        ):
            raise MisfitError
        return [table.column(column.name).combine_chunks().cast(arrow_type(column.dataType)) for column in columns]

    def explain(self, record: bytes, error: Exception, line: int) -> str:  # noqa: ARG002 - for records of many lines
        """Describe what is not JSON, or which field does not fit."""
        try:
            row = parse_json(record)
        except ValueError as invalid:
            return f"{shown(record.decode('utf-8', 'replace'))} is not one JSON value ({invalid})"
        if not isinstance(row, dict):
            return f"{shown(row)} is not a JSON object"
        for name in row:
            if name not in self.columns.names:
                return f"column {name} is not in the schema ({', '.join(self.columns.names)})"
        for column in self.columns.fields:
            if not self._fits_alone(column, row):
                type_name = column.dataType.simpleString().upper() + ("" if column.nullable else " NOT NULL")
                return f"column {column.name}: {shown(row.get(column.name))} is not of type {type_name}"
        return str(error) if isinstance(error, MisfitError) and str(error) else shown(row)

    def _fits_alone(self, column: t.StructField, row: dict[str, object]) -> bool:
        field = {column.name: row[column.name]} if column.name in row else {}
        alone = replace(self, columns=t.StructType([column]), record=RecordColumns())
        return alone.fits(Block.of(json.dumps(field).encode()))


def _table(block: Block, types: Sequence[tuple[str, pa.DataType]]) -> pa.Table:
    return arrow_json.read_json(
        contents(block),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=max(1, block.length)),
        parse_options=arrow_json.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="error"),
    )


def _count_infinities(table: pa.Table) -> int:
    return sum(infinities(column.combine_chunks()) for column in table.columns)


def _doubles(kind: pa.DataType) -> pa.DataType:
    """Return a type with DOUBLE in place of FLOAT."""
    if pt.is_struct(kind):
        return pa.struct([(field.name, _doubles(field.type)) for field in kind])
    if pt.is_list(kind):
        return pa.list_(_doubles(kind.value_type))
    return pa.float64() if pt.is_float32(kind) else kind


def _count_filled(block: Block) -> int:
    """Count the lines that are not blank.

    Raises MisfitError for a line that begins with null: pyarrow's parser accepts it as a row, or reads outside of its memory.
    """
    lengths = block.ends - block.starts
    # An object has at least two characters; only a line that is shorter, or begins with a blank, can be blank.
    first = np.frombuffer(block.data, np.uint8)[block.starts]
    doubtful = np.flatnonzero((lengths == 0) | np.isin(first, _DOUBTFUL))
    blank = 0
    for i in doubtful:
        line = block.data[block.starts[i] : block.ends[i]].removeprefix(codecs.BOM_UTF8).strip()
        if line.startswith(b"null"):
            raise MisfitError("not one object a line")
        blank += not line
    return len(lengths) - blank


def _check_utf8(block: Block) -> None:
    """Raise MisfitError for bytes that are not UTF-8, which pyarrow's JSON parser accepts."""
    try:
        str(memoryview(block.data)[: block.length], "utf-8")
    except UnicodeDecodeError as error:
        raise MisfitError(str(error)) from None


def _parsed_type(data_type: t.DataType) -> pa.DataType:
    """Return the type in which the parser reads a column: the column's own, but dates as texts."""
    match data_type:
        case t.DateType():
            return pa.string()
        case t.StructType():
            return pa.struct([(field.name, _parsed_type(field.dataType)) for field in data_type])
        case t.ArrayType():
            return pa.list_(_parsed_type(data_type.elementType))
        case _:
            return arrow_type(data_type)


def check_json_columns(columns: t.StructType) -> None:
    """Raise ConfigError for a type that is not read from JSON."""
    for column in columns:
        _check_type(column.name, column.dataType)


def _check_type(name: str, data_type: t.DataType) -> None:
    match data_type:
        case t.MapType() | t.BinaryType() | t.NullType():
            raise ConfigError(
                f"The property schema gives {name} the type {data_type.simpleString()}, which is not read from JSON: "
                "use a STRUCT for an object, a STRING for binary data",
                name="schema",
            )
        case t.StructType():
            for field in data_type:
                _check_type(f"{name}.{field.name}", field.dataType)
        case t.ArrayType():
            _check_type(f"{name}[]", data_type.elementType)
        case _:
            pass
