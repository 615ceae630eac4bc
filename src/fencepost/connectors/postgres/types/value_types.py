"""How the texts of one type of PostgreSQL become values: what each type gives is in types.py and temporal.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from fencepost.api.errors import DataError

Reader = Callable[[pa.Array], pa.Array]
"""Turns texts of PostgreSQL into values; nulls stay null. Raises ValueError, which pa.ArrowInvalid is, or DataError."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The Spark type of a column in DDL, its Arrow type, and how its texts are read.

    `marker` is the text for a value that is not known, as PostgreSQL would write it; None if the type has no such.
    `semantic` is the name that Debezium and Connect give such a value in schemas, None for plain values.
    """

    ddl: str
    arrow: pa.DataType
    read: Reader
    marker: Callable[[str], str] | None = None
    semantic: str | None = None


def casting(ddl: str, kind: pa.DataType, semantic: str | None = None) -> ValueType:
    """Return a type whose texts Arrow reads."""
    return ValueType(ddl, kind, lambda texts: texts.cast(kind), semantic=semantic)


def unrounded(kind: ValueType, rounded: Callable[[pa.Array], pa.Array], why: str) -> ValueType:
    """Return a type like `kind` for keys: it refuses texts that `rounded` finds, which may become the value of another.

    `why` completes: the value ...
    """

    def read(texts: pa.Array) -> pa.Array:
        found = texts.filter(rounded(texts))
        if len(found):
            raise DataError(f"{found[0].as_py()!r} {why}, so that two rows could have one key")
        return kind.read(texts)

    return replace(kind, read=read)


def read_column(kind: ValueType, texts: pa.Array, where: str) -> pa.Array:
    """Return a column's values. Raises DataError that names the column if they have no representation."""
    try:
        return kind.read(texts)
    except (DataError, ValueError, OverflowError) as error:
        raise DataError(
            f"A value of the column {where} cannot be represented as {kind.ddl}: {error}. Leave the column out with "
            "column.exclude.list; or, if it is a numeric, set decimal.handling.mode=string; if it is a date or time, "
            "time.precision.mode=isostring; if it is an interval, interval.handling.mode=string"
        ) from error
