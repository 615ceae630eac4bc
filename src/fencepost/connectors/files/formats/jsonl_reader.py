"""Reads typed rows from JSON lines (one JSON object a line), with pyarrow's parser."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import json as arrow_json
from pyspark.sql import types as t

from fencepost.api.errors import ConfigError
from fencepost.api.foreign_json import parse_json
from fencepost.connectors.files.content.ranges import Block
from fencepost.connectors.files.formats.field_values import exact_decimal, is_finite
from fencepost.connectors.files.formats.row_reader import (
    NOT_UTF_8,
    RowReader,
    contents,
    is_utf8,
    record_bytes,
    shown,
)
from fencepost.connectors.rows.record_mapping import RecordColumns
from fencepost.connectors.rows.row_types import MisfitError, arrow_type, check_years

_LONG_FRACTION: Final = re.compile(rb"\.[0-9]{30}")
_MINUS: Final = ord("-")
_LOWER_CASE: Final = 0x20
_MOST_DIGITS: Final = 38
# Matches the digits before an exponent, unless a letter or digit precedes them, as in a UUID.
_NUMBER: Final = re.compile(rb"(?:^|[^0-9A-Za-z.+-])[+-]?[0-9.]*$")
_LONGEST: Final = 64
_ESCAPED: Final = re.compile(rb"\\u00")
# The value halfway between the largest number of the type and the next power of two: from here on, numbers round to
# infinity.
_TOO_LARGE_FLOAT: Final = 2**128 - 2**103
_TOO_LARGE_DOUBLE: Final = 2**1024 - 2**970
_DOUBTFUL: Final = np.frombuffer(b" \tn" + codecs.BOM_UTF8[:1], np.uint8)
"""The first bytes of lines that may be blank or null."""


@dataclass(frozen=True)
class JsonLinesReader(RowReader):
    """Reads rows of JSON lines. A field that an object lacks is null; a field that the schema lacks is an error.

    Empty lines are skipped. docs/connectors/file.md lists the JSON values that each type accepts.
    `ignores_other_fields` says that the objects may have fields beyond the columns.
    """

    ignores_other_fields: bool = False

    def parse(self, block: Block, columns: Sequence[t.StructField]) -> list[pa.Array]:
        """Return the rows' values in the given columns."""
        rows = _count_filled(block)
        if rows == 0:
            return [pa.array([], arrow_type(column.dataType)) for column in columns]
        _check_utf8(block)
        if any(map(_has_decimal, (column.dataType for column in columns))):
            self._check_lines(block, _odd_decimals(block), columns)
        table = self._table(block, [(column.name, _parsed_type(column.dataType)) for column in columns])
        if table.num_rows != rows:
            raise MisfitError("not one object a line")
        if not all(map(is_finite, table.columns)):
            # pyarrow's parser reads a number beyond the type's range as infinity.
            self._check_lines(block, range(len(block.ends)), columns)
        arrays = [table.column(column.name).combine_chunks().cast(arrow_type(column.dataType)) for column in columns]
        for array in arrays:
            check_years(array)
        return arrays

    def _table(self, block: Block, types: Sequence[tuple[str, pa.DataType]]) -> pa.Table:
        return arrow_json.read_json(
            contents(block),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=max(1, block.length)),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema(types),
                unexpected_field_behavior="ignore" if self.ignores_other_fields else "error",
            ),
        )

    def _check_lines(self, block: Block, lines: Iterable[int], columns: Sequence[t.StructField]) -> None:
        """Raise MisfitError for a line with a number that the type of its column cannot hold as written."""
        row_type = t.StructType(list(columns))
        for line in lines:
            text = bytes(block.data[block.starts[line] : block.ends[line]]).removeprefix(codecs.BOM_UTF8)
            if text.strip():
                try:
                    row = parse_json(text, parse_float=_Written)
                except ValueError as error:
                    raise MisfitError(str(error)) from None
                if not _holds(row_type, row):
                    raise MisfitError

    def explain(self, record: bytes, error: Exception, line: int) -> str:  # noqa: ARG002 - for records of many lines
        """Describe invalid JSON, or the field that does not fit."""
        try:
            row = parse_json(record, parse_float=_Written)
        except ValueError as invalid:
            return f"{shown(record.decode('utf-8', 'replace'))} is not one JSON value ({invalid})"
        if not isinstance(row, dict):
            return f"{shown(row)} is not a JSON object"
        for name in row:
            if name not in self.columns.names:
                return f"column {name} is not in the schema ({', '.join(self.columns.names)})"
        for column in self.columns.fields:
            if not self._fits_alone(column, record):
                return _misfit(column, record, row)
        return str(error) if isinstance(error, MisfitError) and str(error) else shown(row)

    def _fits_alone(self, column: t.StructField, record: bytes) -> bool:
        alone = replace(self, columns=t.StructType([column]), record=RecordColumns(), ignores_other_fields=True)
        return alone.fits(Block.of(record))


def _misfit(column: t.StructField, record: bytes, row: dict[str, Any]) -> str:
    """Return why a line does not fit a column's type."""
    if not is_utf8(record):
        return NOT_UTF_8
    if (name := _name_twice(record)) is not None:
        return f"an object has the name {shown(name)} twice"
    type_name = column.dataType.simpleString().upper() + ("" if column.nullable else " NOT NULL")
    return f"column {column.name}: {shown(row.get(column.name))} is not of type {type_name}"


def _name_twice(record: bytes) -> str | None:
    """Return a name that one object has twice, at any depth; None without duplicates."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        names = Counter(name for name, _ in pairs)
        found.extend(name for name, count in names.items() if count > 1)

    json.loads(record, object_pairs_hook=collect)
    return found[0] if found else None


class _Written(float):
    """A number that keeps its text from the file."""

    def __new__(cls, text: str) -> Self:
        """Keep the text."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str

    def __repr__(self) -> str:
        """Return the text."""
        return self.text

    __str__ = __repr__


def _rounds_to_float(number: int | _Written) -> bool:
    """Return whether a number is below _TOO_LARGE_FLOAT as written, although it equals _TOO_LARGE_FLOAT as a DOUBLE."""
    return abs(number) == _TOO_LARGE_FLOAT and Decimal(str(number)).copy_abs() < _TOO_LARGE_FLOAT


def _odd_decimals(block: Block) -> list[int]:
    """Return all lines that have a DECIMAL with more than 38 digits after the decimal point, and maybe further lines.

    pyarrow's parser reads out of bounds for such a number: 1e-2000000000 kills the process.
    """
    begin = int(block.starts[0])
    data = np.frombuffer(block.data, np.uint8)
    minus = begin + 1 + np.flatnonzero(data[begin + 1 : block.length] == _MINUS)
    # Reading two bytes further is safe: PADDING follows the last record.
    small = (data[minus - 1] | _LOWER_CASE == ord("e")) & _is_digit(data[minus + 1]) & _is_digit(data[minus + 2])
    found = [
        *(at for at in minus[small].tolist() if _NUMBER.search(block.data[max(begin, at - _LONGEST) : at - 1])),
        *(match.start() for match in _LONG_FRACTION.finditer(block.data, begin, block.length)),
        # In a JSON string, any character may be escaped like this.
        *(match.start() for match in _ESCAPED.finditer(block.data, begin, block.length)),
    ]
    return sorted(set(np.searchsorted(block.ends, found).tolist()))


def _is_digit(characters: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (characters >= ord("0")) & (characters <= ord("9"))


def _has_decimal(data_type: t.DataType) -> bool:
    match data_type:
        case t.StructType():
            return any(_has_decimal(field.dataType) for field in data_type)
        case t.ArrayType():
            return _has_decimal(data_type.elementType)
        case _:
            return isinstance(data_type, t.DecimalType)


def _holds(data_type: t.DataType, value: Any) -> bool:
    """Return whether each number in a value fits its DECIMAL, FLOAT or DOUBLE type in `data_type`.

    Values that are not numbers are ignored.
    """
    match data_type, value:
        case t.StructType(), dict():
            return all(_holds(field.dataType, value.get(field.name)) for field in data_type)
        case t.ArrayType(), list():
            return all(_holds(data_type.elementType, item) for item in value)
        case t.DecimalType(), str() | int() | float():
            return exact_decimal(str(value), data_type) is not None
        case t.FloatType(), int() | _Written():
            return abs(value) < _TOO_LARGE_FLOAT or _rounds_to_float(value)
        case t.DoubleType(), int() | _Written():
            return abs(value) < _TOO_LARGE_DOUBLE
        case _:
            return True


def _count_filled(block: Block) -> int:
    """Count the lines that are not blank.

    Raises MisfitError for a line that begins with null: pyarrow's parser accepts it as a row, or reads out of bounds.
    """
    lengths = block.ends - block.starts
    # A line can only be blank, or begin with null, if it is empty or if its first byte is one of _DOUBTFUL. All other
    # lines need no closer check.
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
        str(record_bytes(block), "utf-8")
    except UnicodeDecodeError as error:
        raise MisfitError(str(error)) from None


def _parsed_type(data_type: t.DataType) -> pa.DataType:
    """Return the Arrow type with which the parser reads a column, before the values are cast to the column's type.

    The parser misreads local times that have a time zone, and overflows on DECIMALs of 128 bits. DECIMALs of 256 bits
    hold all numbers of 38 digits, also with the zeros that the scale adds.
    """
    match data_type:
        case t.DateType() | t.TimestampNTZType():
            return pa.string()
        case t.DecimalType():
            return pa.decimal256(_MOST_DIGITS, data_type.scale)
        case t.StructType():
            return pa.struct([(field.name, _parsed_type(field.dataType)) for field in data_type])
        case t.ArrayType():
            return pa.list_(_parsed_type(data_type.elementType))
        case _:
            return arrow_type(data_type)


def check_json_columns(columns: t.StructType) -> None:
    """Raise ConfigError for a type that cannot be read from JSON."""
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
