"""format("fencepost") without Spark: its task attempts and its driver commit in every order, on a real broker."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.api.errors import FencepostError
from fencepost.engine.errors import WriteRetriedError
from fencepost.kafka.errors import TransactionAbortableError
from fencepost.spark.errors import SinkFencedError, TopicRecreatedError
from fencepost.spark.format.open_write import TaskDone
from fencepost.spark.format.task_write import TaskWrite
from fencepost.spark.format.writer import FencepostWriter, begin_write
from tests.support.checker import read_topic
from tests.support.processes import wait_for
from tests.support.spark_queries import texts
from tests.support.topics import Topics, unique

SCHEMA = StructType([StructField("value", StringType())])
KEYED = StructType([StructField("key", StringType()), StructField("value", StringType())])


@pytest.fixture
def topic(version_servers: str) -> str:
    return Topics(version_servers).create(partitions=1)


def begun(servers: str, topic: str, schema: StructType = SCHEMA, **options: str) -> FencepostWriter:
    """A batch writer after Spark has pickled it."""
    told = {"kafka.bootstrap.servers": servers, "topic": topic, **options}
    sent = pickle.dumps(begin_write(told, schema, overwrite=False))
    found: FencepostWriter = pickle.loads(sent)  # noqa: S301 - our own
    return found


def task_write(writer: FencepostWriter, task: int, attempt: int) -> TaskWrite:
    opened = writer._open
    assert opened is not None
    return TaskWrite(writer._spec, opened.handed_over, opened.place, task, attempt)


def write(writer: FencepostWriter, task: int, attempt: int, batches: Iterable[pa.RecordBatch]) -> TaskDone:
    with closing(task_write(writer, task, attempt)) as found:
        acks = found.write(batches)
        return TaskDone(task, attempt if found.has_claimed else None, acks, found.requested_counts)


def rows(*values: str, keys: tuple[str, ...] | None = None) -> pa.RecordBatch:
    columns = {} if keys is None else {"key": pa.array(keys)}
    return pa.record_batch({**columns, "value": pa.array(values)})


def test_tasks_hand_a_partition_on_and_all_is_committed_at_once(version_servers: str, topic: str):
    writer = begun(version_servers, topic)
    done = [write(writer, task, 10 + task, [rows(f"{task}-a"), rows(f"{task}-b")]) for task in range(3)]
    assert texts(version_servers, topic) == []
    writer.commit([*done])
    assert texts(version_servers, topic) == ["0-a", "0-b", "1-a", "1-b", "2-a", "2-b"]


def test_a_second_attempt_of_a_task_is_refused_and_nothing_is_visible(version_servers: str, topic: str):
    writer = begun(version_servers, topic)
    first = write(writer, 0, 10, [rows("a")])
    with pytest.raises(WriteRetriedError, match="ran task 0 of a write again"):
        write(writer, 0, 11, [rows("a")])
    writer.abort([first])
    assert texts(version_servers, topic) == []


def test_a_result_that_was_lost_keeps_the_driver_from_committing(version_servers: str, topic: str):
    writer = begun(version_servers, topic)
    write(writer, 0, 10, [rows("a")])
    other = write(writer, 1, 12, [rows("b")])
    with pytest.raises(WriteRetriedError):
        writer.commit([other])
    writer.abort([other])
    assert texts(version_servers, topic) == []


def test_an_attempt_that_is_late_writes_nothing(version_servers: str, topic: str):
    writer = begun(version_servers, topic)
    done = write(writer, 0, 10, [rows("a")])

    def between() -> Iterator[pa.RecordBatch]:
        writer.commit([done])
        yield rows("late")

    with pytest.raises(TransactionAbortableError, match="closed"):
        write(writer, 1, 12, between())
    assert texts(version_servers, topic) == ["a"]


def test_a_writer_that_survives_the_abort_is_refused_by_the_brokers(version_servers: str, topic: str):
    writer = begun(version_servers, topic)
    many = rows(*(f"{number:0100}" for number in range(20_000)))

    def between() -> Iterator[pa.RecordBatch]:
        yield many
        with pytest.raises(WriteRetriedError):
            writer.commit([])
        writer.abort([])
        yield many

    with pytest.raises(FencepostError):
        write(writer, 0, 10, between())
    assert read_topic(version_servers, topic) == []
    again = begun(version_servers, topic)
    again.commit([write(again, 0, 10, [rows("a")])])
    assert texts(version_servers, topic) == ["a"]


def test_a_topic_that_loses_partitions_during_a_write_is_reported(version_servers: str):
    topics = Topics(version_servers)
    topic = topics.create(partitions=2)
    writer = begun(version_servers, topic, KEYED)
    values = [f"{number:0100}" for number in range(20_000)]
    many = rows(*values, keys=tuple(values))

    def between() -> Iterator[pa.RecordBatch]:
        yield many
        topics.delete(topic)
        wait_for(lambda: topics.partitions(topic) is None)
        topics.create(topic, partitions=1)
        yield many

    with pytest.raises(TopicRecreatedError, match=f"Topic {topic} was deleted and created again while"):
        write(writer, 0, 10, between())
    writer.abort([])
    assert read_topic(version_servers, topic) == []


def test_a_topic_that_has_fewer_partitions_since_an_earlier_write_is_written(version_servers: str):
    topics = Topics(version_servers)
    topic = topics.create(partitions=3)
    values = tuple(map(str, range(20)))
    for partitions in (3, 1):
        if partitions == 1:
            topics.delete(topic)
            wait_for(lambda: topics.partitions(topic) is None)
            topics.create(topic, partitions=1)
        writer = begun(version_servers, topic, KEYED)
        writer.commit([write(writer, 0, 10, [rows(*values, keys=values)])])
    assert texts(version_servers, topic) == sorted(values)


def test_nothing_is_committed_to_a_topic_that_was_created_again(version_servers: str, topic: str):
    topics = Topics(version_servers)
    writer = begun(version_servers, topic)
    done = write(writer, 0, 10, [rows("a")])
    topics.delete(topic)
    wait_for(lambda: topics.partitions(topic) is None)
    topics.create(topic, partitions=1)
    with pytest.raises(TopicRecreatedError, match=f"Topic {topic} was deleted and created again while"):
        writer.commit([done])
    writer.abort([done])
    assert read_topic(version_servers, topic) == []


def test_a_run_is_written_once_and_a_newer_writer_fences_the_older(version_servers: str, topic: str):
    run = unique("run")
    older = begun(version_servers, topic, run=run)
    done = write(older, 0, 10, [rows("old")])
    newer = begun(version_servers, topic, run=run)
    with pytest.raises(SinkFencedError):
        older.commit([done])
    older.abort([done])
    newer.commit([write(newer, 0, 10, [rows("new")])])
    assert texts(version_servers, topic) == ["new"]
    again = begun(version_servers, topic, run=run)
    assert again._open is None
    again.commit([TaskDone(0)])
    again.abort([])
    assert texts(version_servers, topic) == ["new"]


def test_an_empty_dataframe_counts_as_a_run(version_servers: str, topic: str):
    run = unique("run")
    first = begun(version_servers, topic, run=run)
    first.commit([write(first, 0, 10, [])])
    assert begun(version_servers, topic, run=run)._open is None
    without = begun(version_servers, topic)
    without.commit([])
    assert texts(version_servers, topic) == []


def test_rows_with_keys_of_several_tasks_keep_their_order(version_servers: str):
    topic = Topics(version_servers).create(partitions=3)
    writer = begun(version_servers, topic, KEYED)
    keys = tuple(str(number % 7) for number in range(100))
    done = [
        write(writer, task, 10 + task, [rows(*(f"{task}-{number:03}" for number in range(100)), keys=keys)])
        for task in range(2)
    ]
    writer.commit([*done])
    by_key: dict[bytes | None, list[str]] = {}
    for record in read_topic(version_servers, topic):
        by_key.setdefault(record.key, []).append((record.value or b"").decode())
    expected = {
        str(key).encode(): [f"{task}-{number:03}" for task in range(2) for number in range(100) if number % 7 == key]
        for key in range(7)
    }
    assert by_key == expected


def test_tasks_with_keyed_rows_for_several_topics_write_one_after_the_other(version_servers: str):
    topics = Topics(version_servers)
    one, two = topics.create(partitions=2), topics.create(partitions=2)
    schema = StructType([StructField(name, StringType()) for name in ("topic", "key", "value")])
    writer = begun(version_servers, one, schema)
    attempt = 987_001

    def row(topic: str, value: str) -> pa.RecordBatch:
        return pa.record_batch({"topic": [topic], "key": ["k"], "value": [value]})

    def has_asked() -> bool:
        entries = read_topic(version_servers, "fencepost-sinks-tasks", isolation="read_uncommitted")
        return any(f'"attempt":{attempt},'.encode() in (entry.value or b"") for entry in entries)

    with ThreadPoolExecutor(1) as other:
        started: list[Future[TaskDone]] = []

        def between() -> Iterator[pa.RecordBatch]:
            yield row(one, "0")
            started.append(other.submit(write, writer, 1, attempt, [row(two, "1"), row(one, "1")]))
            wait_for(has_asked)
            yield row(two, "0")

        done = [write(writer, 0, 10, between()), started[0].result(120)]
    writer.commit([*done])
    assert [texts(version_servers, topic) for topic in (one, two)] == [["0", "1"]] * 2
