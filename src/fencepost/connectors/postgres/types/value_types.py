"""How texts of a PostgreSQL type are converted to values. types.py and temporal.py have the mapping for each type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from fencepost.api.errors import DataError

Reader = Callable[[pa.Array], pa.Array]
"""Converts PostgreSQL's texts to values; nulls stay null. Raises ValueError (also as pa.ArrowInvalid) or DataError."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The Spark type of a column in DDL, its Arrow type, and the reader of its texts.

    `marker` converts a placeholder to the value that stands for an unknown value; None if the type has no such value.
    `semantic` is the name of the type in Debezium's and Connect's schemas, None for plain values.
    """

    ddl: str
    arrow: pa.DataType
    read: Reader
    marker: Callable[[str], Any] | None = None
    semantic: str | None = None


def casting(ddl: str, kind: pa.DataType) -> ValueType:
    """Return a type whose texts Arrow can cast."""
    return ValueType(ddl, kind, lambda texts: texts.cast(kind))


def unrounded(kind: ValueType, rounded: Callable[[pa.Array], pa.Array], why: str) -> ValueType:
    """Return a type like `kind`, for keys, which refuses texts that may become the same value as another text.

    `rounded` returns which texts these are. `why` follows the text in the error message.
    """

    def read(texts: pa.Array) -> pa.Array:
        found = texts.filter(rounded(texts))
        if len(found):
            raise DataError(f"{found[0].as_py()!r} {why}, so that two rows could have one key")
        return kind.read(texts)

    return replace(kind, read=read)


def read_column(kind: ValueType, texts: pa.Array, where: str) -> pa.Array:
    """Return a column's values. Raises DataError, naming the column, for values that cannot be represented."""
    try:
        return kind.read(texts)
    except (DataError, ValueError, OverflowError) as error:
        raise DataError(
            f"A value of the column {where} cannot be represented as {kind.ddl}: {error}. Leave the column out with "
            "column.exclude.list; or, if it is a numeric, set decimal.handling.mode=string; if it is a date or time, "
            "time.precision.mode=isostring; if it is an interval, interval.handling.mode=string"
        ) from error
