"""Batches that Spark's executors write, on a local session: one transaction, each row once, order kept."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.errors import DataError
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.engine import WORTH_SPARK, SparkEngine
from fencepost.engine.errors import BatchCancelledError, RecordRefusedError
from fencepost.engine.source_write import SMALL_BATCH
from fencepost.engine.spark.job_write import coalesces_in_order
from fencepost.kafka.errors import TransactionAbortableError
from fencepost.kafka.transport.cluster import Cluster
from tests.support.checker import Record, read_topic
from tests.support.engine import (
    NumberReader,
    TrickyReader,
    WhereReader,
    bytes_converter,
    json_converter,
    pipeline,
    producer,
    splits,
    write,
    write_into,
)
from tests.support.processes import wait_for
from tests.support.topics import Topics

COUNT = 20_000


def numbers(records: list[Record]) -> list[int]:
    return [int(record.value or b"") for record in records]


def assert_all_in_order_within_partitions(records: list[Record], count: int = COUNT) -> None:
    assert sorted(numbers(records)) == list(range(count))
    for partition in {record.partition for record in records}:
        own = numbers([record for record in records if record.partition == partition])
        assert own == sorted(own)


def test_splits_are_read_and_written_in_one_stage(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=4)
    batch = SourceBatch(reader=NumberReader(), splits=splits(COUNT, 5))
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, batch, pipeline(topic))
    assert_all_in_order_within_partitions(read_topic(bootstrap_servers, topic))
    assert (result.written, result.topics, result.metadata) == (COUNT, frozenset({topic}), None)


@pytest.mark.parametrize("partitions", [1, 3])
def test_keyed_splits_keep_the_order_of_each_key(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, partitions: int
):
    topic = topics.create(partitions=partitions)
    batch = SourceBatch(reader=NumberReader(("key",)), splits=splits(COUNT, 4))
    with producer(bootstrap_servers) as owner:
        write(engine, owner, batch, pipeline(topic))
    found = read_topic(bootstrap_servers, topic)
    assert_all_in_order_within_partitions(found)
    assert all(r.key == f"k{int(r.value or b'') % 7}".encode() for r in found)
    assert len({(r.key, r.partition) for r in found}) == 7


def test_rows_go_to_the_partition_and_topic_that_they_name(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    names = tuple(topics.create(partitions=3) for _ in range(2))
    batch = SourceBatch(reader=NumberReader(("partition", "topic"), names), splits=splits(COUNT, 4))
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, batch, pipeline())
    assert result.topics == frozenset(names)
    for remainder, name in enumerate(names):
        found = read_topic(bootstrap_servers, name)
        assert sorted(numbers(found)) == list(range(remainder, COUNT, 2))
        assert all(r.partition == int(r.value or b"") % 3 for r in found)
        for partition in range(3):
            own = numbers([r for r in found if r.partition == partition])
            assert own == sorted(own)


def test_a_dataframe_arrives_with_keys_headers_and_timestamps(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
):
    topic = topics.create(partitions=2)
    frame = (
        engine.session()
        .range(1_000)
        .select(
            F.col("id").cast("string").alias("key"),
            F.struct("id", (F.col("id") % 2 == 0).alias("even")).alias("value"),
            F.timestamp_millis(F.col("id") + 1_700_000_000_000).alias("timestamp"),
            F.array(F.struct(F.lit("n").alias("key"), F.col("id").cast("string").alias("value"))).alias("headers"),
        )
    )
    with producer(bootstrap_servers) as owner:
        write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic, value=json_converter()))
    found = {r.key: r for r in read_topic(bootstrap_servers, topic)}
    assert len(found) == 1_000
    seven = found[b"7"]
    assert (seven.value, seven.timestamp) == (b'{"id":7,"even":false}', 1_700_000_000_007)
    assert seven.headers == (("n", b"7"),)


def test_the_only_cause_of_refused_rows_is_known_after_a_shuffle(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
):
    topic = topics.create(partitions=2)
    texts = F.col("id").cast("string")
    frame = engine.session().range(10).select(texts.alias("key"), texts.alias("value"))
    errors = ErrorHandling(Tolerance.ALL)
    with producer(bootstrap_servers) as owner:
        result = write(
            engine, owner, SourceBatch(dataframe=frame), pipeline(topic, value=bytes_converter(), errors=errors)
        )
    assert (result.written, result.errors.skipped) == (0, 10)
    assert "ByteArrayConverter" in (result.only_cause or "")


def test_an_unkeyed_dataframe_is_written_without_a_shuffle(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=4)
    frame = engine.session().range(COUNT).select(F.col("id").cast("string").alias("value"))
    with producer(bootstrap_servers) as owner:
        write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
    assert_all_in_order_within_partitions(read_topic(bootstrap_servers, topic))


def test_the_rows_of_a_kept_dataframe_keep_their_order(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    """Spark coalesces persisted partitions by their location, not by their order."""
    topic = topics.create(partitions=4)
    frame = engine.session().range(0, COUNT, numPartitions=16).select(F.col("id").cast("string").alias("value"))
    assert coalesces_in_order(frame, 2)
    frame.persist().count()
    # Spark chooses at random which of them is read first.
    assert not coalesces_in_order(frame, 2)
    with producer(bootstrap_servers) as owner:
        write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
    frame.unpersist()
    assert_all_in_order_within_partitions(read_topic(bootstrap_servers, topic))


def test_a_key_stays_in_its_partition_while_a_topic_grows(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    """Executors use the partition count that the worker knows, not each its own."""
    topic = topics.create(partitions=2)
    keyed = NumberReader(("key",))
    later = [SourceRecord({}, {}, topic, key=f"k{number % 7}", value=str(number)) for number in range(1_000, 1_007)]
    with producer(bootstrap_servers) as owner:
        write(engine, owner, SourceBatch(reader=keyed, splits=splits(1_000, 4)), pipeline(topic))
        topics.grow(topic, 5)
        Cluster.of(owner.config.client).forget_topic(topic)
        write(engine, owner, later, pipeline(topic))
        write(engine, owner, SourceBatch(reader=keyed, splits=[(1_007, 1_500), (1_500, 2_000)]), pipeline(topic))
    found = read_topic(bootstrap_servers, topic)
    assert sorted(numbers(found)) == list(range(2_000))
    placed = {(record.key, record.partition) for record in found if int(record.value or b"") >= 1_000}
    assert len(placed) == 7
    assert max(partition for _, partition in placed) > 1


@pytest.mark.parametrize("keyed", [False, True])
def test_a_row_may_name_a_partition_that_its_topic_just_got(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, keyed: bool
):
    """An executor sees the new partition first.

    Other parts of the batch may have used the old count, so it is sent again.
    """
    topic = topics.create(partitions=2)
    frame = engine.session().range(COUNT, numPartitions=4).select(
        F.col("id").cast("string").alias("value"), *([(F.col("id") % 7).cast("string").alias("key")] if keyed else []),
        F.when(F.col("id") == COUNT - 10, 4).alias("partition"),
    )  # fmt: skip
    with producer(bootstrap_servers) as owner:
        write(engine, owner, SourceBatch(reader=NumberReader(), splits=splits(10, 2)), pipeline(topic))
        topics.grow(topic, 5)
        with pytest.raises(TransactionAbortableError, match="got more partitions"):
            write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
        write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
    found = read_topic(bootstrap_servers, topic)
    assert sorted(numbers(found)) == sorted([*range(10), *range(COUNT)])
    assert [record.partition for record in found if numbers([record]) == [COUNT - 10]] == [4]
    if keyed:
        placed = {(r.key, r.partition) for r in found if r.key is not None and numbers([r]) != [COUNT - 10]}
        assert len(placed) == 7


def test_two_spark_batches_share_a_transaction(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=2)
    with producer(bootstrap_servers) as owner:
        owner.begin_transaction()
        for first in (0, 5_000):
            batch = SourceBatch(reader=NumberReader(), splits=[(first, first + 2_500), (first + 2_500, first + 5_000)])
            write_into(engine, owner, batch, pipeline(topic))
        owner.commit_transaction()
    assert sorted(numbers(read_topic(bootstrap_servers, topic))) == list(range(10_000))


def test_a_reader_without_splits_writes_nothing(engine: SparkEngine, bootstrap_servers: str, topic: str):
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, SourceBatch(reader=NumberReader(), splits=[]), pipeline(topic))
    assert (result.written, result.topics) == (0, frozenset())


@pytest.mark.parametrize("keyed", [False, True])
def test_a_data_error_of_an_executor_arrives_as_it_was_raised(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, keyed: bool
):
    topic = topics.create(partitions=2)
    frame = engine.session().range(COUNT).select(
        F.col("id").cast("string").alias("value"), *([F.col("id").cast("string").alias("key")] if keyed else []),
        F.when(F.col("id") == COUNT - 10, 9).alias("partition"),
    )  # fmt: skip
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match="partition 9 of topic"):
        write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
    assert read_topic(bootstrap_servers, topic) == []


def test_a_reader_that_fails_on_an_executor_fails_with_its_own_error(
    engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path
):
    reader = TrickyReader("fail", 1_500, str(tmp_path / "once"))
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match="line 1500"):
        write(engine, owner, SourceBatch(reader=reader, splits=splits(3_000, 2)), pipeline(topic))
    assert read_topic(bootstrap_servers, topic) == []


def test_a_bug_in_a_reader_is_a_data_error_of_one_line_with_its_place(
    engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path
):
    reader = TrickyReader("break", 1_500, str(tmp_path / "once"))
    with (
        producer(bootstrap_servers) as owner,
        pytest.raises(DataError, match=r"read\(\) of TrickyReader failed: RuntimeError: a bug in a reader") as e,
    ):
        write(engine, owner, SourceBatch(reader=reader, splits=splits(3_000, 2)), pipeline(topic))
    assert "\n" not in str(e.value)
    assert "engine.py:" in str(e.value)


def test_a_topic_with_an_impossible_name_is_named(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    other = topics.create()
    batch = SourceBatch(reader=NumberReader(("topic",), (other, "no such topic")), splits=splits(10, 2))
    with producer(bootstrap_servers) as owner, pytest.raises(RecordRefusedError, match="no such topic"):
        write(engine, owner, batch, pipeline())
    assert read_topic(bootstrap_servers, other) == []


def test_a_frame_without_a_value_column_is_refused(engine: SparkEngine, bootstrap_servers: str, topic: str):
    frame = engine.session().range(3)
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match="no column 'value'"):
        write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))


def test_a_short_batch_is_not_held_up_by_a_long_one_of_another_task(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    long_topic, short_topic = topics.create(partitions=2), topics.create(partitions=2)
    marker = tmp_path / "once"
    cancelled = threading.Event()
    outcome: list[BaseException] = []

    def write_long(bootstrap: str) -> None:
        reader = TrickyReader("hang", 100, str(marker))
        with producer(bootstrap) as owner:
            owner.begin_transaction()
            try:
                batch = SourceBatch(reader=reader, splits=splits(4_000, 4))
                write_into(engine, owner, batch, pipeline(long_topic), task="long-0", cancelled=cancelled)
            except BatchCancelledError as error:
                outcome.append(error)
            owner.abort_transaction()

    thread = threading.Thread(target=write_long, args=(bootstrap_servers,))
    thread.start()
    wait_for(marker.exists)
    with producer(bootstrap_servers) as owner:
        batch = SourceBatch(reader=NumberReader(), splits=splits(COUNT, 4))
        write(engine, owner, batch, pipeline(short_topic), task="short-0")
        polled = [SourceRecord({}, {}, short_topic, value=str(COUNT))]
        write(engine, owner, polled, pipeline(short_topic), task="polled-0")
    assert thread.is_alive()
    cancelled.set()
    engine.cancel("long-0")
    thread.join()
    assert isinstance(outcome[0], BatchCancelledError)
    assert_all_in_order_within_partitions(read_topic(bootstrap_servers, short_topic), COUNT + 1)
    assert read_topic(bootstrap_servers, long_topic) == []


def test_batches_of_an_unknown_topic_are_refused(engine: SparkEngine, bootstrap_servers: str):
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match="have no topic"):
        write(engine, owner, SourceBatch(reader=NumberReader(), splits=splits(10, 1)), pipeline())


def test_executors_share_a_transaction_on_version_1(engine: SparkEngine, tv1_broker: EmbeddedBroker):
    topic = Topics(tv1_broker.bootstrap_servers).create(partitions=4)
    with producer(tv1_broker.bootstrap_servers) as owner:
        for _ in range(2):
            write(engine, owner, SourceBatch(reader=NumberReader(), splits=splits(COUNT, 4)), pipeline(topic))
    found = numbers(read_topic(tv1_broker.bootstrap_servers, topic))
    assert sorted(found) == sorted([*range(COUNT), *range(COUNT)])


def test_large_readers_are_read_in_the_worker_until_spark_has_started(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    # The second engine takes over the existing session, but has to ask for it first.
    cold = SparkEngine({})
    readers: list[int] = []

    def read_elsewhere(size: int) -> bool:
        write(cold, owner, SourceBatch(reader=WhereReader(), splits=[1, 2], bytes=size), pipeline(topic))
        found = [int(record.value or b"") for record in read_topic(bootstrap_servers, topic)]
        readers[:] = found
        return set(found[-2:]).isdisjoint({os.getpid()})

    with producer(bootstrap_servers) as owner:
        assert not read_elsewhere(SMALL_BATCH + 1)
        assert not cold.started
        assert not read_elsewhere(WORTH_SPARK)
        wait_for(lambda: read_elsewhere(SMALL_BATCH + 1), what="a batch to be read by an executor")
        assert cold.started
        read_elsewhere(SMALL_BATCH)
    assert readers[:4] == [os.getpid()] * 4
    assert readers[-2:] == [os.getpid()] * 2
    assert engine.session().range(1).count() == 1


def test_python_workers_are_forked_with_their_imports_done(engine: SparkEngine):
    def already(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = ("fencepost.engine.write_stage", "fencepost.converters", "pyarrow.csv")
        # Checked before this function could have imported any of these modules itself.
        done = [name for name in wanted if name in sys.modules]
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"value": done})

    found = engine.session().range(1, numPartitions=1).mapInArrow(already, "value STRING").toArrow()

    assert found["value"].to_pylist() == ["fencepost.engine.write_stage", "fencepost.converters", "pyarrow.csv"]
