"""The payloads of an outbox are expanded in a Spark job exactly as in the worker."""

from __future__ import annotations

import json

import pytest

from fencepost.api.record import SourceBatch
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import RecordRefusedError
from fencepost.transforms.chain import Step
from fencepost.transforms.outbox import EventRouter
from tests.support.checker import read_topic
from tests.support.engine import SKIP, json_converter, pipeline, producer, write
from tests.support.topics import Topics

_ROW = "STRUCT<id: STRING, aggregatetype: STRING, aggregateid: STRING, payload: STRING, at: TIMESTAMP>"
_EVENT = f"value STRUCT<before: {_ROW}, after: {_ROW}, source: STRUCT<table: STRING>, op: STRING>"
PAYLOADS = ('{"a":1}', '{"a":1} x', "[1]]", "[1],", '{"a":1}{"b":2}', "[1]")


def test_a_job_expands_only_whole_json_and_refuses_times_before_1970(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
) -> None:
    topic = topics.create(partitions=1)
    router = EventRouter()
    router.configure(
        {
            "route.topic.replacement": "${routedByValue}",
            "table.expand.json.payload": "true",
            "table.field.event.timestamp": "at",
        }
    )
    session = engine.session()
    rows = [((None, ("e", topic, "1", payload, None), ("outbox",), "c"),) for payload in PAYLOADS]
    frame = session.createDataFrame(rows, _EVENT)
    early = frame.limit(1).selectExpr(
        "struct(value.before, struct(value.after.id, value.after.aggregatetype, value.after.aggregateid, "
        "value.after.payload, timestamp_millis(-1) AS at) AS after, value.source, value.op) AS value"
    )
    steps = pipeline("given", value=json_converter(), transforms=[Step(router)])
    with producer(bootstrap_servers) as owner:
        write(engine, owner, SourceBatch(dataframe=frame), steps)
        skipping = pipeline("given", value=json_converter(), transforms=[Step(router)], errors=SKIP)
        assert write(engine, owner, SourceBatch(dataframe=early), skipping).errors.skipped == 1
        with pytest.raises(RecordRefusedError, match="has the timestamp -1, which is before 1970"):
            write(engine, owner, SourceBatch(dataframe=early), steps)
    found = [record.value for record in read_topic(bootstrap_servers, topic)]
    assert found == [(text if text in ('{"a":1}', "[1]") else json.dumps(text)).encode() for text in PAYLOADS]
