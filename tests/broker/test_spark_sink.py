"""exactly_once and write_kafka on a real session and a real broker: what is in Kafka, and what is refused."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.errors import ConfigError, DataError, FencepostError
from fencepost.embedded.java import find_java
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import SparkDataError
from fencepost.engine.spark.session import make_java_home
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.spark import ExactlyOnce, exactly_once, write_kafka
from fencepost.spark.few_rows import few_rows
from fencepost.spark.progress import SinkKey
from fencepost.spark.rows import record_columns
from fencepost.spark.sink import Sink
from fencepost.spark.sink_config import SinkConfig
from tests.support.checker import read_topic
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import Process, wait_for
from tests.support.spark_queries import STORAGE_TOPIC, FileQuery, functions, numbered, progress_of, texts
from tests.support.topics import Topics, unique

_PATIENCE = 400.0


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    engine = SparkEngine({"spark.sql.shuffle.partitions": "2"})
    yield engine.session()
    engine.stop()


@pytest.fixture
def sink(bootstrap_servers: str, topics: Topics) -> ExactlyOnce:
    """A sink with a name, and a topic of that name."""
    name = topics.create(unique("sink"), partitions=2)
    return exactly_once(topic=name, name=name, **{"bootstrap.servers": bootstrap_servers})


@pytest.fixture
def name(sink: ExactlyOnce) -> str:
    return str(sink._config.name)


@pytest.fixture
def query(spark: SparkSession, sink: ExactlyOnce, tmp_path: Path) -> FileQuery:
    """A query that writes to the sink, with one micro-batch of three rows."""
    query = FileQuery(spark, tmp_path, sink)
    query.add("0", "1", "2")
    return query


def refusal(query: FileQuery) -> str:
    """The text of the error that ends a query."""
    with pytest.raises(StreamingQueryException) as raised:
        query.run()
    return str(raised.value)


def test_each_micro_batch_is_one_transaction_with_its_progress(query: FileQuery, name: str, bootstrap_servers: str):
    query.add("3", "4")
    query.run()
    query.add("5")
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3", "4", "5"]
    assert [found["batch"] for found in progress_of(bootstrap_servers, name)] == [0, 1, 2]


def test_the_function_tells_what_it_has_committed(query: FileQuery, name: str, sink: ExactlyOnce):
    query.add("3", "4")
    query.run()
    (first,) = sink.statistics
    assert (first.sink, first.transactional_id) == (name, f"fencepost-sink-{name}")
    assert (first.records, first.transactions, first.skipped, first.last_batch) == (5, 2, 0, 1)
    assert first.bytes > 0
    query.forget_commit(1)
    query.add("5")
    query.run()
    (second,) = sink.statistics
    assert (second.records, second.transactions, second.skipped, second.last_batch) == (1, 1, 1, 2)


def test_keyed_rows_of_small_and_large_batches_keep_their_order(query: FileQuery, name: str, bootstrap_servers: str):
    def spread(frame: DataFrame) -> DataFrame:
        rows = frame.select(F.explode(F.sequence(F.lit(0), F.col("value").cast("int"))).alias("number"))
        return rows.selectExpr("CAST(number % 5 AS STRING) AS key", "CAST(number AS STRING) AS value")

    query.shape = spread
    for last in (499, 1_499, 499):
        query.add(str(last))
    query.run()
    by_key: dict[bytes | None, list[int]] = {}
    for record in read_topic(bootstrap_servers, name):
        by_key.setdefault(record.key, []).append(int(record.value or b""))
    expected = [*range(1), *range(2), *range(3), *range(500), *range(1_500), *range(500)]
    assert by_key == {str(k).encode(): [n for n in expected if n % 5 == k] for k in range(5)}


@pytest.mark.parametrize("partitions", [1, 3, 12])
def test_few_rows_are_taken_in_their_order_and_more_are_not(spark: SparkSession, partitions: int):
    numbers = spark.range(0, 100, 1, partitions)
    rows = few_rows(numbers, 100)
    assert rows is not None
    assert rows["id"].to_pylist() == list(range(100))
    assert few_rows(numbers, 99) is None
    none = few_rows(numbers.where("id < 0"), 99)
    assert none is not None
    assert none.num_rows == 0


def test_few_rows_of_an_adaptive_plan_keep_their_order(spark: SparkSession):
    sorted_rows = spark.range(0, 100, 1, 3).orderBy(F.col("id").desc())
    rows = few_rows(sorted_rows, 100)
    assert rows is not None
    assert rows["id"].to_pylist() == list(range(99, -1, -1))
    assert few_rows(sorted_rows, 99) is None


def test_few_rows_take_one_job_of_one_stage(spark: SparkSession):
    context, group = spark.sparkContext, unique("group")
    tracker = context.statusTracker()
    context.setLocalProperty("spark.jobGroup.id", group)
    try:
        few_rows(spark.range(0, 100_000, 1, 3), 1_000)
        # Spark tells of jobs later, and in their order.
        spark.range(1).toArrow()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    wait_for(lambda: len(tracker.getJobIdsForGroup(group)) >= 2)
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    assert [len(job.stageIds) for job in jobs if job is not None] == [1, 1]


def test_columns_of_records_need_no_select(spark: SparkSession, sink: ExactlyOnce):
    rows = spark.range(1).selectExpr("string(id) AS value")
    assert record_columns(rows, sink._config) is rows
    assert record_columns(rows.selectExpr("*", "1 AS other"), sink._config).columns == ["value"]


def test_a_repeated_batch_is_not_written_again(query: FileQuery, name: str, bootstrap_servers: str):
    query.run()
    query.forget_commit(0)
    query.add("3")
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]


def test_a_repeated_batch_of_a_stateful_query_is_executed(query: FileQuery, name: str, bootstrap_servers: str):
    query.shape = lambda frame: frame.dropDuplicates(["value"])
    query.run()
    query.add("2", "3")
    query.run()
    query.forget_commit(1)
    query.add("3", "4")
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3", "4"]


def test_an_older_state_of_the_checkpoint_is_refused(query: FileQuery, name: str, bootstrap_servers: str):
    query.run()
    saved = query.save()
    query.add("3")
    query.run()
    query.add("4")
    query.run()
    query.restore(saved)
    # Batch 1 now has a row that it had not then.
    assert "with other rows" in refusal(query) or "older state" in refusal(query)
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3", "4"]


def test_a_batch_with_a_known_number_but_other_rows_is_refused(query: FileQuery, name: str, bootstrap_servers: str):
    query.run()
    saved = query.save()
    query.add("3")
    query.run()
    query.restore(saved)
    query.add("a", name="0000a.txt")
    assert "is in Kafka, but with other rows" in refusal(query)
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]


def test_a_deleted_checkpoint_is_refused(query: FileQuery, name: str, bootstrap_servers: str):
    query.run()
    query.checkpoint.rename(query.folder / "gone")
    assert "holds the batches of another checkpoint" in refusal(query)
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]


def test_lost_progress_is_refused_until_the_first_batch_is_told(
    query: FileQuery, name: str, bootstrap_servers: str, topics: Topics
):
    query.run()
    query.add("3")
    other = unique("sinks")
    options = {"bootstrap.servers": bootstrap_servers, "sink.storage.topic": other}
    query.function = exactly_once(topic=name, name=name, **options)
    assert "set first.batch=1" in refusal(query)
    query.function = exactly_once(topic=name, name=name, **options, **{"first.batch": 1})
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]
    assert topics.config(other)["cleanup.policy"] == "compact"


def test_a_topic_that_was_created_again_is_refused(query: FileQuery, name: str, bootstrap_servers: str, topics: Topics):
    query.run()
    topics.delete(name)
    wait_for(lambda: topics.partitions(name) is None)
    topics.create(name)
    query.add("3")
    assert f"Topic {name} was deleted and created again" in refusal(query)
    assert texts(bootstrap_servers, name) == []


def test_a_topic_that_is_created_again_under_a_running_query_is_refused(
    query: FileQuery, name: str, bootstrap_servers: str, topics: Topics
):
    running = query.start(available_now=False)
    try:
        wait_for(lambda: texts(bootstrap_servers, name) == ["0", "1", "2"], what="the first batch")
        partitions = topics.partitions(name)
        assert partitions is not None
        topics.delete(name)
        wait_for(lambda: topics.partitions(name) is None)
        topics.create(name, partitions=partitions)
        query.add("3")
        with pytest.raises(StreamingQueryException, match=f"Topic {name} was deleted and created again"):
            assert running.awaitTermination(500), "the query goes on"
    finally:
        running.stop()
    assert texts(bootstrap_servers, name) == []


def test_a_batch_whose_python_worker_was_killed_is_written_once(query: FileQuery, name: str, bootstrap_servers: str):
    marker = str(query.folder / "killed")

    def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if "1" in batch["value"].to_pylist() and not os.path.exists(marker):  # noqa: PTH110 - pickled by value
                with open(marker, "w"):  # noqa: PTH123 - likewise
                    os.kill(os.getpid(), signal.SIGKILL)

    query.shape = lambda frame: frame.mapInArrow(kill_once, "value STRING")
    query.run()
    assert os.path.exists(marker)  # noqa: PTH110 - as above
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]


@pytest.mark.parametrize("lost", ["PRODUCE request", "PRODUCE answer", "END_TXN request", "END_TXN answer"])
def test_a_connection_that_is_cut_costs_no_row(
    query: FileQuery, name: str, bootstrap_servers: str, fault_proxy: FaultProxy, lost: str
):
    query.function = exactly_once(topic=name, name=name, **{"bootstrap.servers": fault_proxy.address})
    request, direction = lost.split()
    cut = fault_proxy.on_request if direction == "request" else fault_proxy.on_response
    trap = cut(ApiKey[request], Act.RESET)
    query.add("3")
    query.run()
    assert trap.sprung
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]


def test_a_newer_instance_fences_the_older(query: FileQuery, name: str, bootstrap_servers: str):
    running = query.start(available_now=False)
    wait_for(lambda: texts(bootstrap_servers, name) == ["0", "1", "2"], _PATIENCE)
    config = SinkConfig.from_options({"bootstrap.servers": bootstrap_servers, "topic": name})
    newer = Sink(config, SinkKey(name))
    newer.own()
    query.add("3")
    wait_for(lambda: not running.isActive, _PATIENCE)
    assert f"The sink {name} was taken over by another query" in str(running.exception())
    assert newer.last is not None
    assert newer.last.batch == 0
    newer.close()
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]


def test_a_query_that_is_stopped_in_a_batch_leaves_nothing_open(query: FileQuery, name: str, bootstrap_servers: str):
    marker = query.folder / "running"

    def hang(batches: Iterator[pa.RecordBatch], marker: str = str(marker)) -> Iterator[pa.RecordBatch]:
        import os.path  # noqa: PLC0415 - pickled by value
        import time  # noqa: PLC0415

        for batch in batches:
            yield batch
            with open(marker, "w"):  # noqa: PTH123
                pass
            while not os.path.exists(f"{marker}-end"):  # noqa: PTH110
                time.sleep(0.05)

    query.shape = lambda frame: frame.mapInArrow(hang, "value STRING")
    running = query.start(available_now=False)
    wait_for(marker.exists, _PATIENCE)
    running.stop()
    assert running.exception() is None
    (query.folder / "running-end").touch()
    with Admin(ClientConfig(tuple(bootstrap_servers.split(",")))) as admin:
        assert not [found for found in admin.open_transactions() if name in str(found.transactional_id)]
    assert texts(bootstrap_servers, name) == []
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]


def test_several_sinks_in_one_query(spark: SparkSession, bootstrap_servers: str, topics: Topics, tmp_path: Path):
    kafka = {"bootstrap.servers": bootstrap_servers}
    one, two = topics.create(), topics.create()
    query = FileQuery(spark, tmp_path, functions(exactly_once(topic=one, **kafka), exactly_once(topic=two, **kafka)))
    query.add("0")
    query.run()
    query.forget_commit(0)
    query.run()
    assert texts(bootstrap_servers, one) == texts(bootstrap_servers, two) == ["0"]


def test_two_functions_for_one_sink_in_one_query_are_refused(query: FileQuery, name: str, bootstrap_servers: str):
    kafka = {"bootstrap.servers": bootstrap_servers}
    one, two = (exactly_once(topic=name, name=name, **kafka) for _ in range(2))
    query.function = functions(one, two)
    assert "give each a name of its own" in refusal(query)


def test_a_session_that_may_write_twice_is_refused_with_the_line_to_add(query: FileQuery, spark: SparkSession):
    settings = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.stage.maxConsecutiveAttempts", "4")
    try:
        text = refusal(query)
    finally:
        settings.set("spark.stage.maxConsecutiveAttempts", "1")
    assert '.config("spark.stage.maxConsecutiveAttempts", "1")' in text


def test_the_columns_of_sparks_own_sink(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    # Brokers delete records with timestamps as old as these within minutes.
    kept = {"retention.ms": "-1"}
    one, two = topics.create(partitions=3, config=kept), topics.create(config=kept)
    frame = spark.createDataFrame(
        [
            (bytearray(b"k\xff"), "v1", one, [("h", bytearray(b"\x00\x01"))], 2, 1_700_000_000_123),
            (None, None, two, None, None, 1_700_000_000_456),
        ],
        "key BINARY, value STRING, topic STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT, at LONG",
    ).withColumn("timestamp", F.timestamp_millis("at"))
    written = write_kafka(frame, **{"kafka.bootstrap.servers": bootstrap_servers})
    assert (written.records, written.skipped) == (2, False)
    (first,) = read_topic(bootstrap_servers, one)
    assert (first.key, first.value, first.partition, first.timestamp) == (b"k\xff", b"v1", 2, 1_700_000_000_123)
    assert first.headers == (("h", b"\x00\x01"),)
    (second,) = read_topic(bootstrap_servers, two)
    assert (second.key, second.value, second.headers, second.timestamp) == (None, None, (), 1_700_000_000_456)


def test_whole_rows_with_a_converter_and_key_columns(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=3)
    frame = spark.range(100).select(F.col("id"), (F.col("id") % 7).cast("string").alias("group"))
    options = {"value.converter": "JsonConverter", "value.converter.schemas.enable": False, "key.columns": "group"}
    write_kafka(frame.repartition(4), topic=topic, **{"bootstrap.servers": bootstrap_servers, **options})
    found = read_topic(bootstrap_servers, topic)
    assert sorted((r.value or b"").decode() for r in found) == sorted(
        f'{{"id":{n},"group":"{n % 7}"}}' for n in range(100)
    )
    assert {r.key for r in found} == {str(n).encode() for n in range(7)}
    assert len({(r.key, r.partition) for r in found}) == 7


def test_a_chain_of_transforms(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create()
    frame = spark.range(3).select(F.struct("id").alias("value"))
    chain = {"transforms": "only", "transforms.only.type": "ExtractField$Value", "transforms.only.field": "id"}
    write_kafka(
        frame, topic=topic, **{"bootstrap.servers": bootstrap_servers, "value.converter": "StringConverter", **chain}
    )
    assert texts(bootstrap_servers, topic) == ["0", "1", "2"]


@pytest.mark.parametrize("count", [10, 2_000], ids=["small", "large"])
def test_refused_rows_are_dead_letters_of_the_same_transaction(
    query: FileQuery, name: str, bootstrap_servers: str, topics: Topics, count: int
):
    letters = topics.create()
    options = {
        "bootstrap.servers": bootstrap_servers,
        "value.converter": "ByteArrayConverter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
    }
    query.function = exactly_once(topic=name, name=name, **options)
    query.run()
    query.add(*numbered(0, count))
    query.run()
    assert texts(bootstrap_servers, name) == []
    assert texts(bootstrap_servers, letters) == sorted(["0", "1", "2", *numbered(0, count)])
    headers = dict(read_topic(bootstrap_servers, letters)[0].headers)
    assert headers["__connect.errors.connector.name"] == name.encode()


def test_a_run_is_written_once(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create()
    frame = spark.range(3).selectExpr("id AS value")
    options = {"topic": topic, "bootstrap.servers": bootstrap_servers}
    assert write_kafka(frame, run="2026-11-22", **options).records == 3
    assert write_kafka(frame, run="2026-11-22", **options).skipped
    assert texts(bootstrap_servers, topic) == ["0", "1", "2"]
    assert write_kafka(frame, run="2026-11-23", **options).records == 3
    assert write_kafka(frame, run="2026-11-22", **options).skipped
    assert len(texts(bootstrap_servers, topic)) == 6


def test_a_run_whose_topic_was_created_again_is_refused(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create()
    frame = spark.range(3).selectExpr("id AS value")
    options = {"topic": topic, "bootstrap.servers": bootstrap_servers, "run": "1"}
    write_kafka(frame, **options)
    topics.delete(topic)
    wait_for(lambda: topics.partitions(topic) is None)
    topics.create(topic)
    with pytest.raises(FencepostError, match="was deleted and created again"):
        write_kafka(frame, **options)


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=2)
    failing = F.when(F.col("id") == 99_990, F.raise_error(F.lit("bad row"))).otherwise(F.col("id").cast("string"))
    frame = spark.range(0, 100_000, 1, 3).select(failing.alias("value"))
    with pytest.raises(SparkDataError, match="bad row"):
        write_kafka(frame, topic=topic, run="1", **{"bootstrap.servers": bootstrap_servers})
    assert texts(bootstrap_servers, topic) == []
    write_kafka(
        spark.range(1).selectExpr("id AS value"), topic=topic, run="1", **{"bootstrap.servers": bootstrap_servers}
    )
    assert texts(bootstrap_servers, topic) == ["0"]


def test_a_row_for_the_topic_of_the_progress_is_refused(spark: SparkSession, bootstrap_servers: str):
    frame = spark.range(1).select(F.lit("x").alias("value"), F.lit(STORAGE_TOPIC).alias("topic"))
    with pytest.raises(ConfigError, match="holds the progress of sinks"):
        write_kafka(frame, name=unique("sink"), run="1", **{"bootstrap.servers": bootstrap_servers})


@pytest.mark.parametrize(
    ("columns", "options", "error", "text"),
    [
        (["id"], {"topic": "t"}, ConfigError, "name one of them 'value', or set value.converter"),
        (["id AS value"], {}, ConfigError, "set the option topic"),
        (["struct(id) AS value"], {"topic": "t"}, DataError, "set value.converter, for example to JsonConverter"),
        (["id"], {"topic": "t", "value.converter": "JsonConverter", "key.columns": "no"}, ConfigError, "names 'no'"),
        (["id AS value"], {"topic": "t", "topics": "t"}, ConfigError, "did you mean topic"),
        (["id AS value"], {"topic": "t", "acks": "1"}, ConfigError, "acks"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(
    spark: SparkSession, columns: list[str], options: dict[str, str], error: type[Exception], text: str
):
    with pytest.raises(error, match=text):
        write_kafka(spark.range(1).selectExpr(*columns), **{"bootstrap.servers": "127.0.0.1:9", **options})


def test_a_stream_is_refused_where_a_dataframe_is_written(spark: SparkSession, bootstrap_servers: str):
    stream = spark.readStream.format("rate").load().selectExpr("string(value) AS value")
    with pytest.raises(ConfigError, match=r"is a stream: use frame\.writeStream\.foreachBatch\(exactly_once"):
        write_kafka(stream, topic="t", **{"bootstrap.servers": bootstrap_servers})


def test_a_call_without_a_streaming_query_is_refused(spark: SparkSession, sink: ExactlyOnce):
    with pytest.raises(FencepostError, match="without a streaming query"):
        sink(spark.range(1).selectExpr("id AS value"), 0)


def test_a_large_batch_is_in_one_transaction(
    spark: SparkSession, sink: ExactlyOnce, name: str, bootstrap_servers: str, tmp_path: Path
):
    def many(frame: DataFrame) -> DataFrame:
        rows = frame.select(F.explode(F.sequence(F.lit(0), F.lit(19_999))).alias("number"))
        return rows.selectExpr("CAST(number AS STRING) AS value")

    query = FileQuery(spark, tmp_path, sink, many)
    query.add("once")
    query.run()
    assert texts(bootstrap_servers, name) == sorted(numbered(0, 20_000))


def test_the_first_example_of_the_page_runs(bootstrap_servers: str, topics: Topics, tmp_path: Path):
    """As a user runs it: a script, with a session of its own."""
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    topic = topics.create()
    script = tmp_path / "orders.py"
    script.write_text(page.split("```python\n")[1].partition("```")[0].replace('"orders"', f'"{topic}"'))
    environment = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": make_java_home(find_java(), tmp_path / "java")}
    command = ["env", "-C", str(tmp_path), *(f"{name}={value}" for name, value in environment.items())]
    with Process([*command, sys.executable, str(script), bootstrap_servers], tmp_path / "log") as driver:
        wait_for(lambda: not driver.running or len(read_topic(bootstrap_servers, topic)) >= 100, _PATIENCE)
        assert driver.running, driver.output[-3000:]
    keys = sorted(int(record.key or b"") for record in read_topic(bootstrap_servers, topic))
    assert keys == list(range(len(keys)))
