"""Random columns of Parquet, ORC and Avro files, at and beyond the limits of their types, with their Python values."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import fastavro
import pyarrow as pa
from pyarrow import orc, parquet

from tests.support.python_values import EXACT, MOST, REFUSED, numbers_of


def table_file(chance: random.Random, form: str) -> tuple[str, Sequence[str], Sequence[Any], bytes]:
    """Return a column's type, its stored values, its expected Python values or REFUSED, and the file."""
    count = chance.choice([1, 3])
    kind, storage, expected = chance.choice(_TABLE_KINDS[form])(chance, count)
    if chance.random() < 0.5:
        good = [n for n, value in enumerate(expected) if value is not REFUSED]
        storage, expected = storage.take(pa.array(good, pa.int64())), [expected[n] for n in good]
        if not good:
            return table_file(chance, form)
    texts = [str(scalar) for scalar in _shown(storage)]
    return kind, texts, expected, _write(form, kind, storage)


def _shown(storage: pa.Array) -> Sequence[Any]:
    if pa.types.is_timestamp(storage.type) or pa.types.is_date(storage.type):
        return list(storage.view(pa.int64() if pa.types.is_timestamp(storage.type) else pa.int32()))
    return [bytes(value.as_buffer() or b"") for value in storage] if pa.types.is_string(storage.type) else list(storage)


def _write(form: str, kind: str, storage: pa.Array) -> bytes:
    sink = io.BytesIO()
    if form == "parquet":
        parquet.write_table(pa.table({"v": storage}), sink)
    elif form == "orc":
        orc.write_table(pa.table({"v": storage}), sink)
    else:
        schema: Any = {"type": "record", "name": "Row", "fields": [{"name": "v", "type": _avro_type(kind)}]}
        plain: Any = {"type": "record", "name": "Row", "fields": [{"name": "v", "type": _avro_storage(kind)}]}
        fastavro.writer(
            sink, plain, [{"v": value} for value in storage.to_pylist()], metadata={}, sync_interval=1 << 20
        )
        return _with_schema(sink.getvalue(), schema)
    return sink.getvalue()


def _with_schema(data: bytes, schema: Any) -> bytes:
    """Return an Avro file with another schema for the same bytes."""
    reader = fastavro.block_reader(io.BytesIO(data))
    [block] = list(reader)
    header = io.BytesIO()
    sync = data[-16:]
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
    form: Any = {
        "type": "record", "name": "header", "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
        ],
    }  # fmt: skip
    fastavro.schemaless_writer(header, form, {"magic": b"Obj\x01", "meta": meta, "sync": sync})
    body = io.BytesIO()
    for number in (block.num_records, len(block.bytes_.getvalue())):
        fastavro.schemaless_writer(body, {"type": "long"}, number)
    return header.getvalue() + body.getvalue() + block.bytes_.getvalue() + sync


def _avro_type(kind: str) -> Any:
    if kind.startswith("DECIMAL"):
        precision, scale = numbers_of(kind)
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return _AVRO[kind]


def _avro_storage(kind: str) -> str:
    if kind.startswith("DECIMAL"):
        return "bytes"
    found = _AVRO[kind]
    return "long" if kind == "INT" else found if isinstance(found, str) else str(found["type"])


_AVRO: Final[dict[str, Any]] = {
    "INT": "int", "BIGINT": "long", "DOUBLE": "double", "FLOAT": "float", "STRING": "string",
    "us": {"type": "long", "logicalType": "timestamp-micros"}, "ms": {"type": "long", "logicalType": "timestamp-millis"},
    "ns": {"type": "long", "logicalType": "local-timestamp-nanos"}, "DATE": {"type": "int", "logicalType": "date"},
}  # fmt: skip

Made = tuple[str, pa.Array, list[Any]]


def _whole_column(chance: random.Random, count: int) -> Made:
    kind = chance.choice(
        [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    )
    low = 0 if pa.types.is_unsigned_integer(kind) else -(1 << (kind.bit_width - 1))
    high = low + (1 << kind.bit_width) - 1
    values = [chance.choice([low, high, 0, chance.randint(low, high)]) for _ in range(count)]
    wanted: list[Any] = [Decimal(value) for value in values] if kind == pa.uint64() else list(values)
    return str(kind), pa.array(values, kind), wanted


def _signed_column(chance: random.Random, count: int) -> Made:
    kind = chance.choice([pa.int8(), pa.int16(), pa.int32(), pa.int64()])
    edge = 1 << (kind.bit_width - 1)
    values = [chance.choice([-edge, edge - 1, 0, chance.randint(-edge, edge - 1)]) for _ in range(count)]
    return str(kind), pa.array(values, kind), list(values)


def _decimal_column(chance: random.Random, count: int) -> Made:
    precision = chance.choice([2, 9, 10, 18, 19, 37, 38, chance.randint(1, MOST)])
    scale = chance.randint(0, precision)
    edge = 10**precision
    # The writer stores as many bytes as the precision needs.
    most = (1 << (8 * _bytes_of(precision) - 1)) - 1
    candidates = [edge - 1, 1 - edge, 0, 5, edge, -edge, most, -most, chance.randrange(edge)]
    values = [chance.choice([value for value in candidates if abs(value) <= most]) for _ in range(count)]
    kind = pa.decimal128(precision, scale)
    raw = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    array = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(raw)])
    wanted = [Decimal(value).scaleb(-scale, EXACT) if abs(value) < edge else REFUSED for value in values]
    return f"DECIMAL({precision},{scale})", array, wanted


def _bytes_of(precision: int) -> int:
    return next(size for size in range(1, 17) if (1 << (8 * size - 1)) - 1 >= 10**precision - 1)


def _orc_decimal_column(chance: random.Random, count: int) -> Made:
    kind, array, wanted = _decimal_column(chance, count)
    precision, _ = numbers_of(kind)
    if precision <= 18:
        # The writer stores only 64 bits for such a precision.
        inside = [n for n, value in enumerate(wanted) if value is not REFUSED]
        array, wanted = array.take(pa.array(inside, pa.int64())), [wanted[n] for n in inside]
        if not inside:
            return _orc_decimal_column(chance, count)
    return kind, array, wanted


def _float_column(chance: random.Random, count: int) -> Made:
    kind = chance.choice([pa.float32(), pa.float64()])
    size = kind.bit_width // 8
    raw = bytes(chance.choice([0, 0, 0x7F, 0x80, 0xFF, chance.randrange(256)]) for _ in range(size * count))
    values = list(struct.unpack(f"<{count}{'f' if size == 4 else 'd'}", raw))
    return "FLOAT" if size == 4 else "DOUBLE", pa.Array.from_buffers(kind, count, [None, pa.py_buffer(raw)]), values


def _date_column(chance: random.Random, count: int) -> Made:
    values = [
        chance.choice([-719_162, 2_932_896, -1, 0, -719_163, 2_932_897, chance.randint(-(2**31), 2**31 - 1)])
        for _ in range(count)
    ]
    return "DATE", pa.array(values, pa.int32()).view(pa.date32()), list(values)


def _time_column(chance: random.Random, count: int) -> Made:
    unit = chance.choice(["ms", "us", "ns"])
    limit = 2**63 - 1
    candidates = [0, -1, -999, -1000, -1001, 999, 1_000, limit, -limit, limit // 1000, limit // 1000 + 1]
    values = [chance.choice([*candidates, chance.randint(-(2**62), 2**62)]) for _ in range(count)]
    wanted: list[Any] = []
    for value in values:
        us = value * 1_000 if unit == "ms" else value if unit == "us" else value // 1_000
        wanted.append(us if -(2**63) <= us < 2**63 else REFUSED)
    return unit, pa.array(values, pa.int64()).view(pa.timestamp(unit)), wanted


def _nanosecond_column(chance: random.Random, count: int) -> Made:
    limit = 2**62
    values = [chance.choice([0, -1, -999, -1000, -1001, 999, chance.randint(-limit, limit)]) for _ in range(count)]
    return "ns", pa.array(values, pa.int64()).view(pa.timestamp("ns")), [value // 1_000 for value in values]


def _string_column(chance: random.Random, count: int) -> Made:
    pieces = [b"a", "é".encode(), b"\0", b"\xff", b"\xc3", "\U0001f600".encode(), b"\xed\xa0\x80", b""]
    values = [b"".join(chance.choice(pieces[: chance.choice([3, 8])]) for _ in range(3)) for _ in range(count)]
    wanted: list[Any] = []
    for value in values:
        try:
            wanted.append(value.decode())
        except UnicodeDecodeError:
            wanted.append(REFUSED)
    return "STRING", pa.array(values, pa.binary()).view(pa.string()), wanted


def _avro_decimal_column(chance: random.Random, count: int) -> Made:
    precision = chance.choice([1, 9, 18, 37, 38, chance.randint(1, MOST)])
    scale, edge = chance.randint(0, precision), 10**precision
    candidates = [edge - 1, 1 - edge, 0, 5, edge, -edge, edge * 10 + 7, 2**127, 10**60, chance.randrange(edge)]
    values = [chance.choice(candidates) for _ in range(count)]
    raw = [value.to_bytes(value.bit_length() // 8 + 1 + chance.choice([0, 2]), "big", signed=True) for value in values]
    wanted = [Decimal(value).scaleb(-scale, EXACT) if abs(value) < edge else REFUSED for value in values]
    return f"DECIMAL({precision},{scale})", pa.array(raw, pa.binary()), wanted


def _avro_int_column(chance: random.Random, count: int) -> Made:
    edge = 2**31
    values = [chance.choice([-edge, edge - 1, edge, -edge - 1, 2**40, 0]) for _ in range(count)]
    return "INT", pa.array(values, pa.int64()), [value if -edge <= value < edge else REFUSED for value in values]


def _avro_numbers_column(chance: random.Random, count: int) -> Made:
    kind, array, wanted = chance.choice([_float_column, _time_column])(chance, count)
    return kind, array.view(pa.int64()) if pa.types.is_timestamp(array.type) else array, wanted


_TABLE_KINDS: Final[dict[str, Sequence[Callable[[random.Random, int], Made]]]] = {
    "parquet": (_whole_column, _decimal_column, _float_column, _date_column, _time_column, _string_column),
    "orc": (_signed_column, _orc_decimal_column, _float_column, _date_column, _nanosecond_column, _string_column),
    "avro": (_avro_decimal_column, _avro_int_column, _avro_numbers_column),
}
