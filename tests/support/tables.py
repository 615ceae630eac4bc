"""Tables of records for hypothesis: plain rows, and the same rows as Arrow columns of all kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from fencepost.kafka.records.columns import Records, normalize

# Lengths at which a varint gets another byte, or a binary view is no longer inline.
_EDGES = (12, 13, 63, 64, 8191, 8192)

_BYTES = st.binary(max_size=20) | st.builds(
    lambda byte, n: bytes([byte]) * n, st.integers(0, 255), st.sampled_from(_EDGES)
)
_TEXT = st.text(max_size=20)
_BYTES_TYPES = (pa.binary(), pa.large_binary(), pa.binary_view())
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())
# confluent-kafka cuts a header's name at a NUL when it reads it.
_NAME = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
_HEADER = st.tuples(_NAME, st.none() | _BYTES)
_HEADER_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

# The difference of any two timestamps fits into 64 bits, like deltas in a record batch.
TIMESTAMPS = st.integers(-(2**62), 2**62 - 1) | st.integers(1_700_000_000_000, 1_700_000_100_000)


@dataclass(frozen=True)
class Row:
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Table:
    rows: list[Row]
    records: Records

    def __repr__(self) -> str:
        # Hypothesis warns about examples that cannot be printed.
        return f"Table({repr(self.rows)[:2_000]})"


@st.composite
def tables(draw: st.DrawFn, timestamps: st.SearchStrategy[int] = TIMESTAMPS, max_rows: int = 30) -> Table:
    """A table of at least one row. Some have no keys, timestamps or headers."""
    count = draw(st.integers(1, max_rows))
    values, value = draw(_byte_columns(count))
    keys, key = draw(_byte_columns(count)) if draw(st.booleans()) else ([None] * count, None)
    times, timestamp = draw(_columns(st.none() | timestamps, pa.int64(), count))
    if draw(st.booleans()):
        times, timestamp = [None] * count, None
    headers, header = draw(_header_columns(count)) if draw(st.booleans()) else ([()] * count, None)
    rows = [Row(*row) for row in zip(keys, values, times, headers, strict=True)]
    return Table(rows, normalize(value, key=key, timestamp=timestamp, headers=header))


@st.composite
def _byte_columns(draw: st.DrawFn, count: int) -> tuple[list[bytes | None], Any]:
    if draw(st.booleans()):
        plain, column = draw(_columns(st.none() | _TEXT, draw(st.sampled_from(_TEXT_TYPES)), count))
        expected = [None if text is None else text.encode() for text in plain]
    else:
        same_length = st.binary(min_size=5, max_size=5) if draw(st.booleans()) else _BYTES
        expected, column = draw(_columns(st.none() | same_length, draw(st.sampled_from(_BYTES_TYPES)), count))
    is_view = pa.types.is_binary_view(column.type) or pa.types.is_string_view(column.type)
    return expected, column.dictionary_encode() if not is_view and draw(st.booleans()) else column


@st.composite
def _header_columns(draw: st.DrawFn, count: int) -> tuple[list[tuple[tuple[str, bytes | None], ...]], Any]:
    lists = draw(st.lists(st.none() | st.lists(_HEADER, max_size=4), min_size=count, max_size=count))
    expected = [tuple(entries or ()) for entries in lists]
    plain = [
        None if entries is None else [{"key": name, "value": value} for name, value in entries] for entries in lists
    ]
    return expected, _cut(draw, plain, _HEADER_TYPE)


@st.composite
def _columns(draw: st.DrawFn, elements: st.SearchStrategy[Any], kind: pa.DataType, count: int) -> tuple[list[Any], Any]:
    plain = draw(st.lists(elements, min_size=count, max_size=count))
    return plain, _cut(draw, plain, kind)


def _cut(draw: st.DrawFn, plain: list[Any], kind: pa.DataType) -> Any:
    """The column as a whole array, as a slice out of the middle of a longer one, or in chunks."""
    form = draw(st.sampled_from(["whole", "slice", "chunks"]))
    if form == "whole":
        return pa.array(plain, kind)
    if form == "slice":
        return pa.array([*plain[:2], *plain, *plain[-1:]], kind).slice(len(plain[:2]), len(plain))
    cut = draw(st.integers(0, len(plain)))
    return pa.chunked_array([pa.array(plain[:cut], kind), pa.array(plain[cut:], kind)], kind)
