"""The buffers that a JVM sends become Arrow columns."""

from __future__ import annotations

import struct

from fencepost.java.columns import record_columns


def packed(**buffers: bytes) -> tuple[list[list[object]], memoryview]:
    """The buffers, each padded to 8 bytes, with their names and sizes."""
    names: list[list[object]] = [[name.replace("_", "."), len(data)] for name, data in buffers.items()]
    return names, memoryview(bytearray(b"".join(data + b"\0" * (-len(data) % 8) for data in buffers.values())))


def ints(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


def test_all_buffers_become_columns_with_their_nulls():
    names, body = packed(
        topic=ints(0, 1, 0),
        partition=ints(-1, 4, -1),
        timestamp=struct.pack("<3q", 5, -1, 7),
        key_valid=b"\x05", key_ends=ints(0, 1, 1, 3), key=b"abc",
        value_ends=ints(0, 2, 2, 3), value=b"xyz",
        headers=ints(0, 2, 2, 3), header_name_ends=ints(0, 1, 2, 3), header_name=b"pqr",
        header_value_valid=b"\x06", header_value_ends=ints(0, 0, 1, 1), header_value=b"v",
    )  # fmt: skip
    columns = record_columns({"rows": 3, "topics": ["a", "b"], "buffers": names}, body)
    assert columns.to_pylist() == [
        {"value": b"xy", "key": b"a", "topic": "a", "partition": None, "timestamp": 5,
         "headers": [{"key": "p", "value": None}, {"key": "q", "value": b"v"}]},
        {"value": b"", "key": None, "topic": "b", "partition": 4, "timestamp": None, "headers": []},
        {"value": b"z", "key": b"bc", "topic": "a", "partition": None, "timestamp": 7,
         "headers": [{"key": "r", "value": b""}]},
    ]  # fmt: skip


def test_columns_of_java_may_have_values_only():
    names, body = packed(value_valid=b"\0", value_ends=ints(0, 0), value=b"")
    columns = record_columns({"rows": 1, "topics": ["a"], "buffers": names}, body)
    assert columns.to_pylist() == [{"value": None}]
