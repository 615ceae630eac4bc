"""The worker writes polled records without transforms itself: Spark is never started for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from fencepost.api.errors import DataError
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import BatchCancelledError
from fencepost.kafka.errors import RecordTooLargeError, TransactionAbortableError
from fencepost.kafka.producer.transaction import TransactionState
from tests.support.checker import read_topic, values
from tests.support.engine import (
    NumberReader,
    TrickyReader,
    json_converter,
    pipeline,
    producer,
    splits,
    write,
    write_into,
)
from tests.support.fault_proxy import ApiKey, FaultProxy
from tests.support.topics import Topics


def record(topic: str, value: object, **more: object) -> SourceRecord:
    return SourceRecord({"source": "s"}, {"position": 1}, topic, value, **more)  # type: ignore[arg-type]


def test_a_schemaless_batch_arrives_as_json_in_its_order_without_spark(bootstrap_servers: str, topic: str):
    engine = SparkEngine({})
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, [record(topic, {"n": n}) for n in range(100)], pipeline(value=json_converter()))
    assert values(read_topic(bootstrap_servers, topic)) == [b'{"n":%d}' % n for n in range(100)]
    assert (result.written, result.topics) == (100, frozenset({topic}))
    assert not engine.started


def test_records_of_many_kinds_keep_their_order_and_learn_where_they_went(bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=3)
    kinds = [lambda n: n, lambda n: f"s{n}", lambda n: {"n": n}, lambda _: None, lambda n: [n], lambda n: n / 2]
    records = [
        record(
            topic,
            kinds[n % len(kinds)](n),
            key=None if n % 2 else f"k{n % 7}",
            partition=2 if n % 11 == 0 else None,
            timestamp=None if n % 3 else 1_000 + n,
            headers=[("number", n), ("text", "x")] if n % 5 == 0 else (),
        )
        for n in range(300)
    ]
    with producer(bootstrap_servers) as owner:
        result = write(SparkEngine({}), owner, records, pipeline(value=json_converter()))
    found = {(r.partition, r.offset): r for r in read_topic(bootstrap_servers, topic)}
    assert len(found) == len(records)
    assert result.metadata is not None
    last_offset: dict[int, int] = {}
    for sent, metadata in zip(records, result.metadata, strict=True):
        assert metadata is not None
        got = found[metadata.partition, metadata.offset]
        assert got.value == (None if sent.value is None else json.dumps(sent.value, separators=(",", ":")).encode())
        assert got.key == (None if sent.key is None else sent.key.encode())
        assert got.timestamp == metadata.timestamp
        assert sent.timestamp in (None, got.timestamp)
        assert [name for name, _ in got.headers] == [name for name, _ in sent.headers]
        assert sent.partition in (None, got.partition)
        assert metadata.offset > last_offset.get(metadata.partition, -1)
        last_offset[metadata.partition] = metadata.offset


def test_a_schema_shows_in_the_envelope(bootstrap_servers: str, topic: str):
    records = [record(topic, {"id": n, "name": "a"}, value_schema="id BIGINT NOT NULL, name STRING") for n in (1, 2)]
    with producer(bootstrap_servers) as owner:
        write(SparkEngine({}), owner, records, pipeline(value=json_converter(schemas=True)))
    first = json.loads(values(read_topic(bootstrap_servers, topic))[0] or b"")
    assert first["payload"] == {"id": 1, "name": "a"}
    assert [(f["field"], f["optional"]) for f in first["schema"]["fields"]] == [("id", False), ("name", True)]


def test_several_batches_share_a_transaction(bootstrap_servers: str, topic: str):
    engine, steps = SparkEngine({}), pipeline()
    with producer(bootstrap_servers) as owner:
        owner.begin_transaction()
        for first in range(0, 500, 100):
            batch = [record(topic, str(n)) for n in range(first, first + 100)]
            write_into(engine, owner, batch, steps)
        assert values(read_topic(bootstrap_servers, topic)) == []
        owner.commit_transaction()
    assert values(read_topic(bootstrap_servers, topic)) == [str(n).encode() for n in range(500)]


def test_records_without_a_topic_go_to_the_connectors_in_their_order(bootstrap_servers: str, topic: str):
    records = [SourceRecord({}, {}, topic if n % 3 else None, str(n) if n % 2 else n) for n in range(30)]
    with producer(bootstrap_servers) as owner:
        result = write(SparkEngine({}), owner, records, pipeline(topic))
    assert values(read_topic(bootstrap_servers, topic)) == [str(n).encode() for n in range(30)]
    assert result.topics == {topic}


def test_a_batch_for_many_topics_asks_for_all_of_them_at_once(fault_proxy: FaultProxy, topics: Topics):
    several = [topics.create() for _ in range(6)]
    asks = (ApiKey.METADATA, ApiKey.DESCRIBE_CONFIGS)
    with producer(fault_proxy.address) as owner:
        # The first write goes to another topic, because a new producer sends further requests, which do not count.
        write(SparkEngine({}), owner, [record(topics.create(), "0")], pipeline())
        before = [fault_proxy.requests[key] for key in asks]
        write(SparkEngine({}), owner, [record(topic, "1") for topic in several], pipeline())
        assert [fault_proxy.requests[key] for key in asks] == [count + 1 for count in before]
        write(SparkEngine({}), owner, [record(topic, "2") for topic in several], pipeline())
        assert [fault_proxy.requests[key] for key in asks] == [count + 1 for count in before]


def test_unkeyed_batches_take_turns_on_the_partitions(bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=3)
    engine = SparkEngine({})
    with producer(bootstrap_servers) as owner:
        for n in range(3):
            write(engine, owner, [record(topic, str(n))], pipeline())
    assert {r.partition for r in read_topic(bootstrap_servers, topic)} == {0, 1, 2}


def test_a_small_reader_is_read_in_the_worker(bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=2)
    engine = SparkEngine({})
    batch = SourceBatch(reader=NumberReader(("key",)), splits=splits(3_000, 4), bytes=30_000)
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, batch, pipeline(topic))
    found = read_topic(bootstrap_servers, topic)
    assert sorted(int(r.value or b"") for r in found) == list(range(3_000))
    for key in {r.key for r in found}:
        numbers = [int(r.value or b"") for r in found if r.key == key]
        assert numbers == sorted(numbers)
        assert len({r.partition for r in found if r.key == key}) == 1
    assert result.metadata is None
    assert not engine.started


def test_a_value_that_does_not_fit_its_schema_is_named_and_nothing_is_visible(bootstrap_servers: str, topic: str):
    records = [record(topic, {"id": n}, value_schema="id INT") for n in (1, 2)]
    records.append(record(topic, {"id": "three"}, value_schema="id INT"))
    with producer(bootstrap_servers) as owner:
        with pytest.raises(
            DataError, match=f"for topic {topic}, does not fit value_schema.* It is number 2 of its batch"
        ):
            write(SparkEngine({}), owner, records, pipeline(value=json_converter()))
        assert owner.state is TransactionState.READY
    assert read_topic(bootstrap_servers, topic) == []


def test_a_record_may_name_a_partition_that_its_topic_just_got(bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=2)
    engine = SparkEngine({})
    with producer(bootstrap_servers) as owner:
        write(engine, owner, [record(topic, "before")], pipeline())
        topics.grow(topic, 5)
        result = write(engine, owner, [record(topic, "after", partition=4)], pipeline())
    assert result.metadata is not None
    assert [found.partition for found in result.metadata if found is not None] == [4]
    assert [found.partition for found in read_topic(bootstrap_servers, topic) if found.value == b"after"] == [4]


def test_a_key_stays_in_its_partition_within_a_polled_batch(bootstrap_servers: str, topics: Topics):
    """The batch is written in two parts. Partitions are added to the topic between these parts."""
    topic = topics.create(partitions=2)
    engine = SparkEngine({})
    records = [record(topic, n, key=f"k{n % 7}", partition=4 if n == 14_999 else None) for n in range(15_000)]
    with producer(bootstrap_servers) as owner:
        write(engine, owner, [record(topic, "before")], pipeline())
        topics.grow(topic, 5)
        with pytest.raises(TransactionAbortableError, match="got more partitions while a batch was written"):
            write(engine, owner, records, pipeline(value=json_converter()))
        write(engine, owner, records, pipeline(value=json_converter()))
    found = [r for r in read_topic(bootstrap_servers, topic) if r.key is not None]
    assert len(found) == len(records)
    assert len({(r.key, r.partition) for r in found if r.value != b"14999"}) == 7


def test_a_partition_beyond_the_topics_is_refused(bootstrap_servers: str, topic: str):
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match="partition 5 of topic"):
        write(SparkEngine({}), owner, [record(topic, "x", partition=5)], pipeline())


def test_an_oversize_record_leaves_nothing_visible(bootstrap_servers: str, topic: str):
    records = [record(topic, "small"), record(topic, "x" * 2_000_000)]
    with producer(bootstrap_servers) as owner, pytest.raises(RecordTooLargeError) as caught:
        write(SparkEngine({}), owner, records, pipeline())
    assert caught.value.topic == topic
    assert read_topic(bootstrap_servers, topic) == []


def test_a_cancelled_task_stops_between_two_reads(bootstrap_servers: str, topic: str):
    cancelled = threading.Event()

    class CancellingReader(NumberReader):
        def batch(self, numbers: Sequence[int]) -> pa.RecordBatch:
            if numbers[0] >= 2_000:
                cancelled.set()
            return super().batch(numbers)

    batch = SourceBatch(reader=CancellingReader(), splits=splits(50_000, 1), bytes=1)
    with producer(bootstrap_servers) as owner:
        owner.begin_transaction()
        with pytest.raises(BatchCancelledError, match="c-0"):
            write_into(SparkEngine({}), owner, batch, pipeline(topic), task="c-0", cancelled=cancelled)
        owner.abort_transaction()
    assert read_topic(bootstrap_servers, topic) == []


def test_a_reader_that_fails_in_the_worker_fails_with_its_own_error(bootstrap_servers: str, topic: str, tmp_path: Path):
    reader = TrickyReader("fail", 1_500, str(tmp_path / "once"))
    batch = SourceBatch(reader=reader, splits=splits(3_000, 1), bytes=1)
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match="line 1500"):
        write(SparkEngine({}), owner, batch, pipeline(topic))
    assert read_topic(bootstrap_servers, topic) == []
