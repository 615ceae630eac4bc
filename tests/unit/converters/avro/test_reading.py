from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost.converters.avro.reading import avro_reader
from fencepost.converters.registry.schemas import RegistrySchema

NOTHING = {"type": "record", "name": "Nothing", "fields": [{"name": "none", "type": "null"}]}
MILLION = bytes([0x80, 0x89, 0x7A, 0x00])
"""A block of a million items, and the end marker of the array."""


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": NOTHING},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        {"type": "map", "values": {"type": "array", "items": {"type": "null"}}},
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "a", "type": ["null", {"type": "array", "items": "null"}]}],
        },
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "n", "type": NOTHING}, {"name": "a", "type": {"type": "array", "items": "Nothing"}}],
        },
    ],
)
def test_an_array_whose_items_take_no_bytes_is_refused(schema: Any):
    # A record of four bytes would have a million items, and one of ten bytes more than any memory could hold.
    with pytest.raises(ValueError, match="items that take no bytes"):
        avro_reader(RegistrySchema(json.dumps(schema), "AVRO"), for_people=False, referred={})(MILLION)


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ({"type": "array", "items": ["null", "int"]}, b"\x04\x00\x02\x02\x00", [None, 1]),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, b"\x02\x00\x00", [[]]),
        (NOTHING, b"", {"none": None}),
        (
            {
                "type": "record", "name": "T",
                "fields": [{"name": "many", "type": {"type": "array", "items": "T"}}],
            },
            b"\x02\x00\x00", {"many": [{"many": []}]},
        ),
    ],
)  # fmt: skip
def test_other_arrays_are_read(schema: Any, data: bytes, value: Any):
    assert avro_reader(RegistrySchema(json.dumps(schema), "AVRO"), for_people=False, referred={})(data) == value
