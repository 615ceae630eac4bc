"""EventRouter drops updates of outbox rows, and logs one line for all updates of a batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.engine.engine import SparkEngine
from fencepost.transforms.chain import Step
from fencepost.transforms.outbox import EventRouter
from tests.broker.engine.spark.test_engine_sql import sql
from tests.support.checker import read_topic
from tests.support.engine import json_converter, pipeline, producer, write
from tests.support.topics import Topics

_ROW = pa.struct([(name, pa.string()) for name in ("id", "aggregatetype", "aggregateid", "payload")])
_EVENT = pa.struct(
    [("before", _ROW), ("after", _ROW), ("source", pa.struct([("table", pa.string())])), ("op", pa.string())]
)


def events(topic: str) -> list[dict[str, Any]]:
    row = {"id": "e", "aggregatetype": topic, "aggregateid": "1", "payload": "{}"}
    told = [("c", None, row), ("u", row, row), ("d", row, None), ("u", row, row), ("r", None, row)]
    return [{"before": before, "after": after, "source": {"table": "outbox"}, "op": op} for op, before, after in told]


class Events:
    """Reads the events of a topic."""

    schema = (
        "value STRUCT<before: STRUCT<id: STRING, aggregatetype: STRING, aggregateid: STRING, payload: STRING>, after: "
        "STRUCT<id: STRING, aggregatetype: STRING, aggregateid: STRING, payload: STRING>, source: STRUCT<table: STRING>, "
        "op: STRING>"
    )

    def read(self, split: str) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": pa.array(events(split), _EVENT)})


def router(**behavior: str) -> EventRouter:
    transform = EventRouter()
    names = {f"table.op.invalid.{name}": value for name, value in behavior.items()}
    transform.configure({"route.topic.replacement": "${routedByValue}", **names})
    return transform


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(one.levelname, one.getMessage()) for one in caplog.records if "outbox" in one.getMessage()]


@pytest.mark.parametrize("polled", [True, False], ids=["polled", "reader"])
@pytest.mark.parametrize("behavior", ["warn", "error"])
def test_the_updates_of_a_batch_are_logged_once_with_their_number(
    engine: SparkEngine,
    bootstrap_servers: str,
    topics: Topics,
    caplog: pytest.LogCaptureFixture,
    behavior: str,
    *,
    polled: bool,
) -> None:
    topic = topics.create(partitions=1)
    steps = pipeline("given", value=json_converter(), transforms=[Step(router(behavior=behavior))])
    polls = [SourceRecord({"s": 1}, {"n": n}, "given", value) for n, value in enumerate(events(topic))]
    batch: Any = polls if polled else SourceBatch(reader=Events(), splits=[topic], bytes=100)
    with producer(bootstrap_servers) as owner:
        for _ in range(3):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                write(engine, owner, batch, steps)
            level, message = next(iter(told(caplog)))
            assert (level, len(told(caplog))) == ({"warn": "WARNING", "error": "ERROR"}[behavior], 1)
            assert message == (
                "Task connector-0: 2 updates of rows of the outbox were dropped: a service must only insert rows, or delete "
                f"them (table.op.invalid.behavior={behavior})"
            )
    assert len(read_topic(bootstrap_servers, topic)) == 6


def test_updates_that_another_transform_drops_are_not_logged(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create(partitions=1)
    steps = pipeline(topic, value=json_converter(), transforms=[sql(where="value.op <> 'u'"), Step(router())])
    polls = [SourceRecord({"s": 1}, {"n": n}, topic, value) for n, value in enumerate(events(topic))]
    with producer(bootstrap_servers) as owner, caplog.at_level(logging.WARNING):
        write(engine, owner, polls, steps)
    assert told(caplog) == []
    assert len(read_topic(bootstrap_servers, topic)) == 2
