"""Encodes a small number of records, one record at a time.

Columns (layout.py) need as many calls for one record as for a million, and take a quarter of a millisecond. A small
batch of a task has some records for each of several topic partitions, and one for the offsets topic. For these, a loop
takes a fraction of that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.kafka.records.columns import Records, byte_offsets
from fencepost.kafka.records.varints import signed_varint

FEW: Final = 64
"""The maximum number of records. From about 150 records on, the encoder of columns is faster (bench/encoder.py)."""

_FEW_BYTES: Final = 1 << 16
"""The largest number of bytes. The loop copies values twice, the encoder of columns only once."""

_ATTRIBUTES: Final = b"\0"
_NO_HEADERS: Final = b"\0"
_NULL: Final = signed_varint(-1)
_SMALL: Final = tuple(map(signed_varint, range(1 << 11)))


def are_few(records: Records) -> bool:
    """Return whether records should be encoded one by one."""
    return len(records) <= FEW and records.value.nbytes <= _FEW_BYTES


def concatenated(records: Records, timestamp_deltas: Sequence[int]) -> memoryview:
    """Return the bytes of all records, one after the other.

    If there is only one timestamp delta, it applies to all records.
    """
    count = len(records)
    deltas = timestamp_deltas if len(timestamp_deltas) == count else [timestamp_deltas[0]] * count
    keys = [None] * count if records.key is None else _values(records.key)
    headers = [_NO_HEADERS] * count if records.headers is None else list(_headers(records.headers))
    parts: list[bytes] = []
    for offset, value in enumerate(_values(records.value)):
        times = _varint(deltas[offset]) + _varint(offset)
        body = b"".join((_ATTRIBUTES, times, _field(keys[offset]), _field(value), headers[offset]))
        parts += (_varint(len(body)), body)
    return memoryview(b"".join(parts))


def _varint(number: int) -> bytes:
    return _SMALL[number] if 0 <= number < len(_SMALL) else signed_varint(number)


def _field(value: bytes | None) -> bytes:
    """Return a value after its length as a varint."""
    return _NULL if value is None else _varint(len(value)) + value


def _values(column: pa.Array) -> list[bytes | None]:
    """Return the values of a column of bytes or text, large or not, sliced or not."""
    offsets = byte_offsets(column).tolist()
    start = offsets[0]
    buffer = column.buffers()[2]
    data = b"" if buffer is None else buffer.slice(start, offsets[-1] - start).to_pybytes()
    values: list[bytes | None] = [data[first - start : end - start] for first, end in pairwise(offsets)]
    if column.null_count:
        return [None if null else value for null, value in zip(column.is_null().to_pylist(), values, strict=True)]
    return values


def _headers(column: pa.Array) -> Iterator[bytes]:
    """Yield for each record the number of its headers, and the headers."""
    entries = column.flatten()
    pairs = zip(_values(entries.field(0)), _values(entries.field(1)), strict=True)
    for count in pc.list_value_length(column).fill_null(0).to_pylist():
        yield _varint(count) + b"".join(_field(name) + _field(value) for name, value in islice(pairs, count))
