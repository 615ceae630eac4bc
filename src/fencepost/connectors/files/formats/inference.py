"""Infers the columns of CSV and JSON lines from the first MiB of a file, for `schema=infer`.

A CSV column is BIGINT, DOUBLE, BOOLEAN, DATE or TIMESTAMP if all of its values have that type, else STRING. A column is
also STRING if its numbers would lose a plus sign, leading zeros or digits. A field of JSON gets the type of its JSON
values. Rows of the sample that cannot be read are ignored: no choice of columns would make them valid.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow import csv as arrow_csv
from pyspark.sql import types as t

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.api.foreign_json import parse_json
from fencepost.api.spark_names import backticked
from fencepost.connectors.files.content.codecs.compression import Form, codec_of
from fencepost.connectors.files.content.csv_quotes import Quoting
from fencepost.connectors.files.content.held import HeldRange, head_of
from fencepost.connectors.files.content.ranges import PADDING, record_ends
from fencepost.connectors.files.formats.csv_reader import Dialect, read_header
from fencepost.connectors.files.formats.field_values import parse_texts
from fencepost.connectors.rows.row_types import MisfitError, check_years, ddl_of_columns

_WORD: Final = re.compile(r"\w+")
_NOT_AS_WRITTEN: Final = r"^[ \t]*(\+|-?0\d)"
# Matches 16 digits in a row, with or without a decimal point between them.
_MANY_DIGITS: Final = r"\d(\.?\d){15}"
_LONG: Final = range(-(2**63), 2**63)
_BIG: Final = t.DecimalType(38, 0)


def infer_csv(
    path: str, encoding: str, dialect: Dialect, null_values: Iterable[str], allowed: AllowedPaths, *, header: bool
) -> t.StructType | None:
    """Return the columns of a file, None if the file has no row yet.

    Without a header, the columns are called `_c0`, `_c1` and so on.

    Raises DataError if the file cannot be read, or if its header is invalid.
    """
    head = _sample(path, encoding, dialect.quoting, allowed)
    if not head.data.strip():
        return None
    names = read_header(head, dialect, allowed) if header else None
    # Each row that the parser cannot read is skipped.
    parse = dialect.parse_options
    parse.invalid_row_handler = lambda _: "skip"
    given: dict[str, Any] = {
        "null_values": list(null_values), "strings_can_be_null": True, "quoted_strings_can_be_null": False
    }  # fmt: skip
    table = _table(head, names, parse, arrow_csv.ConvertOptions(**given))
    if table is None or not table.num_rows:
        return None
    strings = dict.fromkeys(table.column_names, pa.string())
    texts = _table(head, names, parse, arrow_csv.ConvertOptions(**given, column_types=strings))
    kinds = {
        name: t.StringType()
        if texts is not None and not _fits(texts[name], table[name].type)
        else _spark(table[name].type)
        for name in table.column_names
    }
    titles = names or tuple(f"_c{number}" for number in range(table.num_columns))
    return t.StructType([t.StructField(title, kind) for title, kind in zip(titles, kinds.values(), strict=True)])


def _table(
    head: HeldRange, names: tuple[str, ...] | None, parse: arrow_csv.ParseOptions, convert: arrow_csv.ConvertOptions
) -> pa.Table | None:
    read = arrow_csv.ReadOptions(
        use_threads=False,
        block_size=max(1, len(head.data)),
        column_names=list(names) if names else None,
        autogenerate_column_names=names is None,
        skip_rows_after_names=1 if names else 0,
    )
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(head.data), read_options=read, parse_options=parse, convert_options=convert
        )
    except pa.ArrowInvalid:
        # There are only empty or unreadable lines.
        return None


def _fits(texts: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Return whether all texts are valid values of a type: pyarrow also accepts 0x10, the year 0 and nanoseconds."""
    try:
        check_years(parse_texts(texts.combine_chunks(), _spark(kind)))
    except (MisfitError, pa.ArrowInvalid):
        return False
    return not _inexact(texts, kind)


def _inexact(texts: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Return whether numbers would lose a plus sign, leading zeros or digits."""
    if not pt.is_integer(kind) and not pt.is_floating(kind):
        return False
    if pc.any(pc.match_substring_regex(texts, _NOT_AS_WRITTEN), min_count=0).as_py():
        return True
    if pt.is_integer(kind):
        return False
    long = texts.filter(pc.match_substring_regex(texts, _MANY_DIGITS))
    return not all(map(_is_double, long.to_pylist()))


def _is_double(text: str) -> bool:
    """Return whether a number keeps its value if it is converted to DOUBLE, and then to the shortest text.

    The shortest text of a DOUBLE has up to 17 digits.
    """
    return Decimal(text) == Decimal(repr(float(text)))


def _spark(kind: pa.DataType) -> t.DataType:
    if pt.is_integer(kind):
        return t.LongType()
    if pt.is_floating(kind):
        return t.DoubleType()
    if pt.is_boolean(kind):
        return t.BooleanType()
    if pt.is_date(kind):
        return t.DateType()
    return t.TimestampType() if pt.is_timestamp(kind) else t.StringType()


def infer_json(path: str, encoding: str, allowed: AllowedPaths) -> t.StructType | None:
    """Return the fields of a file's objects, None if it has no object yet.

    Raises DataError if the file cannot be read, or a field has values of different types.
    """
    rows = []
    for line in _sample(path, encoding, None, allowed).data.splitlines():
        try:
            row = parse_json(line, parse_float=_number)
        except ValueError:
            continue
        if isinstance(row, dict) and row:
            rows.append(row)
    return _struct(rows, path, "") if rows else None


def _struct(rows: Iterable[Mapping[str, Any]], path: str, parent: str) -> t.StructType:
    fields: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            if not name:
                raise DataError(
                    f"schema=infer found a field without a name in {parent.rstrip('.') or 'a row'} of the file {path}, which is "
                    "not read. Correct the file"
                )
            fields.setdefault(name, []).append(value)
    return t.StructType(
        [t.StructField(name, _json(values, path, f"{parent}{name}")) for name, values in fields.items()]
    )


def _json(values: Iterable[Any], path: str, place: str) -> t.DataType:
    known = [value for value in values if value is not None]
    kinds = {type(value) for value in known}
    if kinds == {dict}:
        return _struct(known, path, f"{place}.")
    if kinds == {list}:
        return t.ArrayType(_json([item for items in known for item in items], path, f"{place}[]"))
    if kinds <= {str}:
        return t.StringType()
    if kinds == {bool}:
        return t.BooleanType()
    if kinds == {int}:
        return t.LongType() if all(value in _LONG for value in known) else _BIG
    if kinds <= {int, float, Decimal}:
        if (lost := next((number for number in known if _loses_digits(number)), None)) is not None:
            raise DataError(
                f"schema=infer found {lost} in the column {place} of the file {path}, which a DOUBLE would change: set the "
                "property schema to columns, with a DECIMAL or DOUBLE for it"
            )
        return t.DoubleType()
    raise DataError(
        f"schema=infer found values of different types in the column {place} of the file {path}: "
        f"{', '.join(sorted(kind.__name__ for kind in kinds))}. Correct the file, or set the property schema to columns"
    )


def _number(text: str) -> float | Decimal:
    """Return a number as a Decimal with all its digits; as a float if a DOUBLE would be 0 or infinite."""
    number = float(text)
    return Decimal(text) if number and math.isfinite(number) else number


def _loses_digits(number: float | Decimal) -> bool:
    """Return whether conversion to DOUBLE would change a JSON number; False for a number beyond the range of DOUBLE."""
    text = str(number)
    return re.search(_MANY_DIGITS, text) is not None and math.isfinite(float(text)) and not _is_double(text)


def _sample(path: str, encoding: str, quoting: Quoting | None, allowed: AllowedPaths) -> HeldRange:
    """Return the complete records at a file's beginning, or the first, incomplete record if none is complete."""
    name = codecs.lookup(encoding).name
    certain, codec = codec_of(path, name, allowed)
    if not certain:
        return HeldRange(path, 0, 0, b"")
    head = head_of(path, Form(codec, name), allowed)
    _, nexts = record_ends(bytearray(head.data) + bytes(PADDING), len(head.data), quoting=quoting)
    end = int(nexts[-1]) if len(nexts) else len(head.data)
    return HeldRange(path, 0, end, head.data[:end])


def ddl_text(columns: t.StructType) -> str:
    """Return columns as a value of the property `schema`."""
    quoted = [column.name if _WORD.fullmatch(column.name) else backticked(column.name) for column in columns]
    return ddl_of_columns(
        [t.StructField(name, column.dataType) for name, column in zip(quoted, columns.fields, strict=True)]
    )
