"""A SourceBatch of columns has the bytes that Kafka gets: converters, transforms and Spark are not used."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from fencepost.api.errors import ConfigError, DataError
from fencepost.api.record import SourceBatch
from fencepost.engine.engine import SparkEngine
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.producer.record_producer import RecordsAlong
from fencepost.kafka.records.columns import OutgoingRecord, Records
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import Flatten
from tests.support.checker import read_topic
from tests.support.engine import json_converter, pipeline, producer, write
from tests.support.topics import Topics

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def test_the_bytes_of_columns_arrive_as_they_are(bootstrap_servers: str, topics: Topics):
    first, second = topics.create(partitions=2), topics.create()
    now = time.time_ns() // 1_000_000
    columns = pa.RecordBatch.from_pydict(
        {
            "value": pa.array([b"\x00\xff", None, b""], pa.binary()),
            "key": pa.array([b"k", b"k", None], pa.binary()),
            "topic": pa.array([first, first, second]),
            "partition": pa.array([1, 1, None], pa.int32()),
            "timestamp": pa.array([now, now, None], pa.int64()),
            "headers": pa.array([[("h", b"1"), ("h", None)], [], []], HEADERS),
        }
    )
    engine = SparkEngine({})
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, SourceBatch.of_columns(columns), pipeline(value=json_converter()))
    found = [(one.partition, one.key, one.value, one.headers) for one in read_topic(bootstrap_servers, first)]
    assert found == [(1, b"k", b"\x00\xff", (("h", b"1"), ("h", None))), (1, b"k", None, ())]
    assert [one.timestamp for one in read_topic(bootstrap_servers, first)] == [now, now]
    assert [(one.key, one.value) for one in read_topic(bootstrap_servers, second)] == [(None, b"")]
    assert (result.written, result.topics) == (3, frozenset({first, second}))
    assert not engine.started


@pytest.mark.parametrize(("values", "along"), [([b"v"], [b"offset"]), ([], [])])
def test_what_goes_along_is_sent_with_columns_that_have_rows(
    bootstrap_servers: str, topics: Topics, values: list[bytes], along: list[bytes]
):
    topic, beside = topics.create(), topics.create()
    batch = SourceBatch.of_columns(pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())}), topic=topic)
    offset = OutgoingRecord(b"partition", b"offset", (("fencepost", b"mark"),))
    records = RecordsAlong(beside, lambda _: [(0, Records.of([offset]))])
    with producer(bootstrap_servers) as owner:
        owner.begin_transaction()
        result = SparkEngine({}).write(
            batch, pipeline(), owner,
            task="connector-0", cancelled=threading.Event(), topic_gate=TopicGate(None), extra_records=records,
        )  # fmt: skip
        owner.commit_transaction()
    assert [one.value for one in read_topic(bootstrap_servers, topic)] == values
    assert [one.value for one in read_topic(bootstrap_servers, beside)] == along
    assert (result.written, result.topics) == (len(values), frozenset([topic] if values else []))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": ["text"]}, r"a column value \(string\): it takes value \(binary\)"),
        ({"key": [b"k"]}, "no column value: add it"),
        ({"value": [b"v"], "other": [b"o"]}, r"a column other \(binary\)"),
    ],
)
def test_columns_of_another_kind_are_refused(
    bootstrap_servers: str, topic: str, columns: dict[str, list[object]], message: str
):
    batch = SourceBatch.of_columns(pa.RecordBatch.from_pydict(columns), topic=topic)
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match=message):
        write(SparkEngine({}), owner, batch, pipeline())


def test_transforms_of_bytes_are_refused(bootstrap_servers: str, topic: str):
    batch = SourceBatch.of_columns(pa.RecordBatch.from_pydict({"value": [b"v"]}), topic=topic)
    with producer(bootstrap_servers) as owner, pytest.raises(ConfigError, match="which have no fields any more"):
        write(SparkEngine({}), owner, batch, pipeline(transforms=[Step(Flatten())]))
