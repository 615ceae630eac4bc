"""Parses texts into values of columns: the grammar of fields in CSV, and of DECIMALs in JSON.

docs/connectors/file.md has the grammar as a table. A text is refused if the column's type cannot represent its value as
written: numbers never wrap around. Only FLOAT and DOUBLE are rounded, to the nearest number of the type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import types as t

from fencepost.connectors.rows.row_types import MisfitError, arrow_type, parse_timestamps

_Parser = Callable[[pa.Array, Any], pa.Array]

_BLANKS: Final = " \t"
_WHOLE: Final = r"^[+-]?[0-9]+$"
_WITHOUT_ZEROS: Final = r"^\+?(-?)0*([0-9])"
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DECIMAL: Final = re.compile(r"[+-]?([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?")
_NOT_FINITE: Final = r"(?i)^[+-]?(inf|infinity|nan)$"
_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_BOOLEANS: Final = pa.array(["true", "True", "TRUE", "1", "false", "False", "FALSE", "0"])
_TRUE: Final = 4
_MOST_DIGITS: Final = 38
_MOST_OF_EXPONENT: Final = 6
# The default decimal context would round to 28 digits.
_EXACT: Final = Context(prec=2 * _MOST_DIGITS)


def parse_texts(texts: pa.Array, data_type: t.DataType) -> pa.Array:
    """Return the values of a column of texts, in the Arrow type of the column. Nulls stay null.

    Blanks around a value are significant only for STRING and BINARY. Raises MisfitError or pyarrow.ArrowInvalid for a
    text that is not a value of the type.
    """
    if isinstance(data_type, t.StringType | t.BinaryType):
        return texts
    parse: _Parser = _PARSERS.get(type(data_type), _whole_numbers)
    try:
        return parse(texts, data_type)
    except (MisfitError, pa.ArrowInvalid):
        trimmed = pc.ascii_trim(texts, _BLANKS)
        if trimmed.equals(texts):
            raise
    return parse(trimmed, data_type)


def exact_decimal(text: str, kind: t.DecimalType) -> Decimal | None:
    """Return a number with the type's scale, or None if the type cannot hold it exactly.

    The number may have at most 38 digits without leading zeros, including the zeros of its exponent: pyarrow's parser
    allows no more digits, and reads out of bounds for more decimal places.
    """
    found = _DECIMAL.fullmatch(text)
    if found is None or not found[1] + found[2]:
        return None
    exponent = found[3] or "0"
    if len(exponent.lstrip("+-0")) > _MOST_OF_EXPONENT:
        return None
    places = len(found[2]) - int(exponent)
    if places > _MOST_DIGITS or len(found[1].lstrip("0")) + len(found[2]) + max(0, -places) > _MOST_DIGITS:
        return None
    given = Decimal(text)
    kept = given.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    return kept if kept == given and kept.copy_abs() < Decimal(1).scaleb(kind.precision - kind.scale) else None


def _check(texts: pa.Array, pattern: str) -> None:
    if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        raise MisfitError


def _decimals(texts: pa.Array, kind: t.DecimalType) -> pa.Array:
    wanted = arrow_type(kind)
    fraction = rf"(\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
    whole = rf"[0-9]{{1,{kind.precision - kind.scale}}}" if kind.precision > kind.scale else "0"
    usual = pc.match_substring_regex(texts, rf"^-?{whole}{fraction}$")
    if pc.all(usual, min_count=0).as_py():
        return texts.cast(wanted)
    found = [None if text is None else exact_decimal(text, kind) for text in texts.to_pylist()]
    numbers = pa.array(found, wanted)
    if numbers.null_count > texts.null_count:
        raise MisfitError
    return numbers


def _floats(texts: pa.Array, kind: t.DataType) -> pa.Array:
    named = pc.match_substring_regex(texts, _NOT_FINITE)
    if not pc.all(pc.or_(named, pc.match_substring_regex(texts, _NUMBER)), min_count=0).as_py():
        raise MisfitError
    numbers = texts.cast(arrow_type(kind))
    # A number that is too large becomes infinity.
    if pc.any(pc.and_not(pc.is_inf(numbers), named), min_count=0).as_py():
        raise MisfitError
    return numbers


def _booleans(texts: pa.Array, _: t.DataType) -> pa.Array:
    found = pc.index_in(texts, _BOOLEANS, skip_nulls=True)
    if found.null_count > texts.null_count:
        raise MisfitError
    return pc.less(found, _TRUE)


def _whole_numbers(texts: pa.Array, kind: t.DataType) -> pa.Array:
    _check(texts, _WHOLE)
    return pc.replace_substring_regex(texts, _WITHOUT_ZEROS, r"\1\2").cast(arrow_type(kind))


def _dates(texts: pa.Array, kind: t.DataType) -> pa.Array:
    _check(texts, _DATE)
    return texts.cast(arrow_type(kind))


def _timestamps(texts: pa.Array, _: t.DataType) -> pa.Array:
    return parse_timestamps(texts)


def _local_timestamps(texts: pa.Array, kind: t.DataType) -> pa.Array:
    return texts.cast(arrow_type(kind))


_PARSERS: Final[dict[type, _Parser]] = {
    t.DecimalType: _decimals,
    t.FloatType: _floats,
    t.DoubleType: _floats,
    t.BooleanType: _booleans,
    t.DateType: _dates,
    t.TimestampType: _timestamps,
    t.TimestampNTZType: _local_timestamps,
}


def is_finite(values: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether all numbers in the values, including nested values, are finite."""
    if isinstance(values, pa.ChunkedArray):
        return all(map(is_finite, values.chunks))
    if pt.is_struct(values.type):
        return all(map(is_finite, values.flatten()))
    if pt.is_list(values.type):
        return is_finite(values.flatten())
    return not pt.is_floating(values.type) or bool(pc.all(pc.is_finite(values), min_count=0).as_py())
