"""`fencepost.run` with one schema converter for keys, another one for values, and a third one for headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import fencepost
from fencepost import RunError
from fencepost.converters.registry.reading import RegistryReader
from tests.support.checker import read_topic
from tests.support.fake_registry import FakeRegistry
from tests.support.topics import Topics

PRICE = Decimal("-12345678901234567890.123456789012345678")
LANGUAGES = {"key": "ProtobufConverter", "value": "AvroConverter", "header": "JsonSchemaConverter"}


ORDERS = pa.schema(
    [
        ("id", pa.int64()), ("where", pa.string()), ("price", pa.decimal128(38, 18)),
        ("lines", pa.list_(pa.struct([("sku", pa.string()), ("n", pa.int32())]))),
        ("counts", pa.map_(pa.string(), pa.float64())),
    ]
)  # fmt: skip


def orders(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Frames of two rows with nested values and nulls; the last one has another column."""
    for number in range((cursor or 0) + 1, int(config["end"]) + 1, 2):
        rows = [
            {"id": at, "where": "ä" if at % 2 else None, "price": PRICE, "lines": [{"sku": "x", "n": at}, None],
             "counts": {"a": 1.5}}
            for at in (number, number + 1)
        ]  # fmt: skip
        table = pa.Table.from_pylist(rows, ORDERS)
        yield table.append_column("more", pa.array([True, None])) if number > 10 else table, number + 1


def options(registry: FakeRegistry, **more: str) -> dict[str, Any]:
    found: dict[str, Any] = {"poll.interval.ms": "20", "key.columns": "id", "headers.columns": "where"}
    for role, converter in LANGUAGES.items():
        found |= {f"{role}.converter": converter, f"{role}.converter.schema.registry.url": registry.address}
    return found | {name.replace("__", "."): value for name, value in more.items()}


def test_keys_values_and_headers_each_have_their_own_schema_converter(
    bootstrap_servers: str, topics: Topics, registry: FakeRegistry
):
    topic = topics.create(partitions=1)
    result = fencepost.run(
        orders, topic=topic, bootstrap_servers=bootstrap_servers, end=12, options=options(registry), progress=False
    )
    assert result.records == 12
    reader = RegistryReader({"schema.registry.url": registry.address})
    records = read_topic(bootstrap_servers, topic)
    assert [reader.read(record.key or b"", is_key=True) for record in records] == list(range(1, 13))
    values: list[Any] = [reader.read(record.value or b"", is_key=False) for record in records]
    assert values[0] == {
        "id": 1, "where": "ä", "price": PRICE, "lines": [{"sku": "x", "n": 1}, None], "counts": {"a": 1.5},
    }  # fmt: skip
    assert [value.get("more", "no") for value in values[9:]] == ["no", True, None]
    headers = [dict(record.headers)["where"] for record in records]
    assert [data and reader.read(data, is_key=False) for data in headers[:2]] == ["ä", None]
    reader.close()
    kinds = {subject: registry.schemas[versions[0]]["schemaType"] for subject, versions in registry.subjects.items()}
    assert kinds == {f"{topic}-key": "PROTOBUF", f"{topic}-value": "AVRO", f"{topic}-header-string": "JSON"}


def test_a_refusal_of_the_registry_ends_the_run_with_its_reason(
    bootstrap_servers: str, topics: Topics, registry: FakeRegistry
):
    topic = topics.create(partitions=1)
    registry.incompatible = "for a reason"
    registry.add(f"{topic}-value", '"string"')
    with pytest.raises(RunError, match=f"incompatible with those of subject {topic}-value .*for a reason"):
        fencepost.run(
            orders, topic=topic, bootstrap_servers=bootstrap_servers, end=4, options=options(registry), progress=False
        )
    assert read_topic(bootstrap_servers, topic) == []
