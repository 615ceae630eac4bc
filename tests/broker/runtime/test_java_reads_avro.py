"""Apicurio's Java converter reads our Avro as Connect data: the same schemas and values as JsonConverter's."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from fencepost.api.ddl import parse_columns
from fencepost.converters.avro.apicurio import ApicurioAvroConverter
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.json_converter import JsonConverter
from fencepost.converters.registry.base import RegistryConverter
from fencepost.embedded.registry import API, EmbeddedRegistry
from tests.support.apicurio_converter import read_in_java
from tests.support.topics import unique

_AT: Final = dt.datetime(2026, 11, 24, 12, 30, 0, 123000, dt.UTC)
WHOLE: Final[tuple[tuple[str, list[Any]], ...]] = (
    ("TINYINT", [-128, 127]),
    ("SMALLINT", [-(2**15)]),
    ("INT", [2**31 - 1, -(2**31)]),
    ("BIGINT", [-(2**63), 2**63 - 1, 0]),
    ("FLOAT", [1.5, -0.0]),
    ("DOUBLE", [0.1, 5e-324]),
    ("BOOLEAN", [True, False]),
    ("STRING", ["", "ä€\U0001f600", "\0"]),
    ("BINARY", [b"", b"\0\xff"]),
    ("DECIMAL(38, 0)", [Decimal(10**38 - 1), Decimal(-1)]),
    ("DECIMAL(20, 2)", [Decimal("-1.28"), Decimal("0.00")]),
    ("DATE", [dt.date(2026, 11, 24), dt.date(1969, 12, 31)]),
    ("TIMESTAMP", [_AT, dt.datetime(1969, 12, 31, 23, 59, 59, 999000, dt.UTC)]),
    ("ARRAY<STRING>", [["a", None], []]),
    ("ARRAY<ARRAY<INT>>", [[[1], None, []]]),
    ("MAP<STRING, INT>", [{"k": 1, "": None}, {}]),
    ("MAP<INT, STRING>", [{-1: None, 7: "seven"}]),
    ("MAP<STRING, MAP<BIGINT, DATE>>", [{"k": {1: dt.date(2026, 1, 1)}}]),
)
"""Types with values. They are fields of structs, because Apicurio's converter reads only records with a schema."""

BESIDE: Final = [
    (number, kind, values)
    for number, (kind, values) in enumerate(WHOLE)
    if "MAP<INT" not in kind and "MAP<BIG" not in kind
]
"""The types without maps of int keys: Avro gives the entries of all such maps the same name."""
COLUMNS: Final = ", ".join(f"c{number} {kind}, r{number} {kind} NOT NULL" for number, kind, _ in BESIDE)
STRUCTS: Final = (
    "id BIGINT NOT NULL, inner STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<z: STRING, w: DECIMAL(5, 3)>>>, "
    "must STRUCT<a: TIMESTAMP> NOT NULL, by MAP<STRING, STRUCT<q: BINARY>>"
)


def whole_rows() -> list[dict[str, Any]]:
    """Rows with each column, and with nulls in optional columns."""
    rows: list[dict[str, Any]] = []
    for position in range(3):
        row: dict[str, Any] = {}
        for number, _, values in BESIDE:
            value = values[position % len(values)]
            row |= {f"c{number}": None if position == 2 else value, f"r{number}": value}
        rows.append(row)
    return rows


CASES: Final[list[tuple[DataType, list[Any]]]] = [
    *((parse_columns(f"v {kind} NOT NULL"), [{"v": value} for value in values]) for kind, values in WHOLE),
    (parse_columns(COLUMNS), whole_rows()),
    (
        parse_columns(STRUCTS),
        [
            {
                "id": 1, "inner": {"x": 1, "y": [{"z": "deep", "w": Decimal("-1.500")}, None]}, "must": {"a": _AT},
                "by": {"k": {"q": b"\1"}, "l": None},
            },
            {"id": 2, "inner": None, "must": {"a": None}, "by": None},
        ],
    ),
]  # fmt: skip


def converted(converter: RegistryConverter | JsonConverter, topic: str, schema: DataType, rows: list[Any]) -> list[Any]:
    values = pa.array(rows, to_arrow_type(schema, timezone="UTC"))
    found: list[Any] = converter.from_connect_data(topic, schema, values).to_pylist()
    return found


def without_made_names(schema: Any) -> Any:
    """Java gives a generated name to each struct in Avro, and a version to some types; these are removed."""
    match schema:
        case dict():
            made = str(schema.get("name", "")).startswith("io.confluent.connect.avro.")
            return {
                name: without_made_names(part)
                for name, part in schema.items()
                if not (made and name == "name") and not (name == "version" and part == 1)
            }
        case list():
            return [without_made_names(part) for part in schema]
    return schema


@pytest.mark.parametrize("converter", [ApicurioAvroConverter, AvroConverter])
def test_java_reads_the_same_schemas_and_values(
    schema_registry: EmbeddedRegistry, tmp_path: Path, converter: type[RegistryConverter]
):
    own = schema_registry.url.replace(API, "/apis/registry/v2")
    made, plain = converter(), JsonConverter()
    made.configure(
        {"schema.registry.url": schema_registry.url}
        if converter is AvroConverter
        else {
            "apicurio.registry.url": own, "apicurio.registry.auto-register": "true",
            "apicurio.registry.headers.enabled": "false", "apicurio.registry.as-confluent": "true",
            "apicurio.registry.use-id": "contentId",
        },
        is_key=False,
    )  # fmt: skip
    records: list[tuple[str, bytes]] = []
    expected: list[Any] = []
    for schema, rows in CASES:
        topic = unique("topic")
        made.prepare(topic, schema)
        records += [(topic, data) for data in converted(made, topic, schema, rows)]
        expected += [json.loads(data) for data in converted(plain, topic, schema, rows)]
    found = read_in_java(own, records, tmp_path)
    assert len(found) >= 30
    for (topic, data), read, right in zip(records, found, expected, strict=True):
        assert read["payload"] == right["payload"], (topic, data)
        assert without_made_names(read["schema"]) == without_made_names(right["schema"])
