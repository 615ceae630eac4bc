"""The bytes of a few small records one after the other: for these, whole columns cost more than Python for each record.

A batch of source offsets has one record, as a rule. The layout is in record_batch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from fencepost.kafka.records.columns import Records
from fencepost.kafka.records.varints import signed_varint

_MOST_RECORDS: Final = 4
_MOST_BYTES: Final = 16_384
_ATTRIBUTES: Final = b"\0"
_NULL: Final = signed_varint(-1)


def are_few(records: Records) -> bool:
    """Whether `few_records` is for them."""
    if len(records) > _MOST_RECORDS:
        return False
    return bool(sum(column.nbytes for column in records.columns if column is not None) <= _MOST_BYTES)


def few_records(records: Records, timestamp_deltas: Sequence[int]) -> memoryview:
    """The concatenated bytes of records. A single delta, in milliseconds, stands for all."""
    count = len(records)
    deltas = timestamp_deltas if len(timestamp_deltas) == count else [timestamp_deltas[0]] * count
    keys, values, headers = (_rows(column, count) for column in (records.key, records.value, records.headers))
    data = bytearray()
    for number, (delta, key, value, named) in enumerate(zip(deltas, keys, values, headers, strict=True)):
        head = _ATTRIBUTES + signed_varint(delta) + signed_varint(number)
        body = head + _sized(key) + _sized(value) + _headers(named or ())
        data += signed_varint(len(body)) + body
    return memoryview(data)


def _rows(column: pa.Array | None, count: int) -> list[Any]:
    return [None] * count if column is None else column.to_pylist()


def _headers(named: Sequence[dict[str, Any]]) -> bytes:
    found = [_sized(header["key"].encode()) + _sized(header["value"]) for header in named]
    return signed_varint(len(found)) + b"".join(found)


def _sized(data: bytes | None) -> bytes:
    return _NULL if data is None else signed_varint(len(data)) + data
