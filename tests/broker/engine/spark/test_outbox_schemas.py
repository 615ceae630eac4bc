"""Names and versions of the schemas of outbox messages: each row has its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType

from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.converters.json_converter import JsonConverter
from fencepost.engine.engine import SparkEngine
from fencepost.transforms.chain import Step
from fencepost.transforms.outbox import EventRouter
from tests.support.checker import read_topic
from tests.support.engine import pipeline, producer, write
from tests.support.topics import Topics

ROW = "STRUCT<id: STRING, aggregatetype: STRING, aggregateid: STRING, payload: STRING, type: STRING, version: INT>"
VALUE = f"STRUCT<before: {ROW}, after: {ROW}, source: STRUCT<table: STRING>, op: STRING>"
VERSIONS = [1, 1, 2, None, 1]
PREPARED: list[tuple[str, Any, Any]] = []


class PreparedConverter(JsonConverter):
    """Records the schemas that it is prepared for."""

    def prepare(self, topic: str, schema: DataType | None) -> None:
        identity = getattr(schema, "identity", {})
        PREPARED.append((topic, identity.get("name"), identity.get("version")))


def events(topics: list[str]) -> list[dict[str, Any]]:
    rows = [
        {"id": str(n), "aggregatetype": topics[n == 2], "aggregateid": "1", "payload": str(n), "type": "T", "version": version}
        for n, version in enumerate(VERSIONS)
    ]  # fmt: skip
    return [{"before": None, "after": row, "source": {"table": "outbox"}, "op": "c"} for row in rows]


class Events:
    """Reads the events of two topics."""

    schema = f"value {VALUE}"

    def read(self, split: list[str]) -> Iterator[pa.RecordBatch]:
        texts = [(name, pa.string()) for name in ("id", "aggregatetype", "aggregateid", "payload", "type")]
        row = pa.struct([*texts, ("version", pa.int32())])
        source = pa.struct([("table", pa.string())])
        kind = pa.struct([("before", row), ("after", row), ("source", source), ("op", pa.string())])
        yield pa.RecordBatch.from_pydict({"value": pa.array(events(split), kind)})


@pytest.mark.parametrize("how", ["polled", "small", "job"])
def test_each_message_has_the_name_and_the_version_of_its_row(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, how: str
) -> None:
    names = [topics.create(partitions=1), topics.create(partitions=1)]
    router, converter = EventRouter(), PreparedConverter()
    router.configure(
        {
            "route.topic.replacement": "${routedByValue}",
            "table.field.event.schema.version": "version",
            "table.fields.additional.placement": "type:envelope",
        }
    )
    converter.configure({"schemas.enable": "true"}, is_key=False)
    batch: Any = SourceBatch(reader=Events(), splits=[names], bytes=100 if how == "small" else None)
    if how == "polled":
        batch = [SourceRecord({"s": 1}, {"n": 1}, "given", value, value_schema=VALUE) for value in events(names)]
    PREPARED.clear()
    with producer(bootstrap_servers) as owner:
        write(engine, owner, batch, pipeline("given", value=converter, transforms=[Step(router)]))
    first, second = ([json.loads(one.value or b"") for one in read_topic(bootstrap_servers, name)] for name in names)
    assert [(one["payload"]["payload"], one["schema"].get("version")) for one in first] == [
        ("0", 1), ("1", 1), ("3", None), ("4", 1),
    ]  # fmt: skip
    assert [(one["payload"], one["schema"]["version"]) for one in second] == [({"payload": "2", "type": "T"}, 2)]
    called = [f"given.{name}.Value" for name in names]
    assert [{one["schema"]["name"] for one in found} for found in (first, second)] == [{name} for name in called]
    assert set(PREPARED) == {(names[0], called[0], 1), (names[0], called[0], None), (names[1], called[1], 2)}
