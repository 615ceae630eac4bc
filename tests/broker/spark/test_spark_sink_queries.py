"""Spark sink queries that keep state, share a sink, or lose their brokers for a while: each row is in Kafka once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQueryListener

from fencepost.api.errors import FencepostError
from fencepost.engine.engine import SparkEngine
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.spark import ExactlyOnce, exactly_once, write_kafka
from tests.support.checker import read_topic
from tests.support.fault_proxy import ApiKey, FaultProxy, Link
from tests.support.processes import wait_for
from tests.support.spark_queries import FileQuery, functions, numbered, texts
from tests.support.spark_sink_app import WAIT, Waiting
from tests.support.topics import Topics, unique

_PATIENCE = 400.0
_DOCUMENTATION = Path(__file__).parents[3] / "docs" / "spark.md"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = {
        "spark.sql.shuffle.partitions": "1",
        # Small Arrow batches, so that the rows before a waiting row are written.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        # transformWithState supports no other state store.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    engine = SparkEngine(settings)
    yield engine.session()
    engine.stop()


@pytest.fixture
def name(topics: Topics) -> str:
    """A sink's name, which is also its topic's."""
    return topics.create(unique("sink"), partitions=2)


@pytest.fixture
def kafka(bootstrap_servers: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap_servers}


@pytest.fixture
def query(spark: SparkSession, name: str, kafka: dict[str, Any], tmp_path: Path) -> FileQuery:
    return FileQuery(spark, tmp_path, exactly_once(topic=name, name=name, **kafka))


@pytest.fixture
def other(spark: SparkSession, name: str, kafka: dict[str, Any], tmp_path: Path) -> FileQuery:
    """Another query for the same sink."""
    (tmp_path / "other").mkdir()
    return FileQuery(spark, tmp_path / "other", exactly_once(topic=name, name=name, **kafka))


def is_mid_write(query: FileQuery, bootstrap_servers: str, topic: str) -> bool:
    """Whether the query's batch waits half-way, with its first records in Kafka."""
    waiting = (query.folder / "waiting").exists()
    return waiting and bool(read_topic(bootstrap_servers, topic, isolation="read_uncommitted"))


_HELD = sorted([*(f"{number}-{'x' * 1_000}" for number in range(1_000)), WAIT])


def hold(query: FileQuery) -> None:
    """Make the query's next batch, with the rows _HELD, wait near its end, when its first records are in Kafka."""
    query.shape = lambda frame: frame.mapInArrow(Waiting(str(query.folder)), "value STRING")
    query.add(*_HELD)


def test_windows_of_a_watermark_are_written_once(query: FileQuery, name: str, bootstrap_servers: str):
    def windows(frame: DataFrame) -> DataFrame:
        events = frame.select(F.timestamp_seconds(F.col("value").cast("long")).alias("at"))
        counts = events.withWatermark("at", "10 seconds").groupBy(F.window("at", "10 seconds")).count()
        return counts.select(F.concat_ws(" ", F.unix_timestamp("window.start"), "count").alias("value"))

    query.shape = windows
    query.add("1", "2", "11")
    query.add("12", "35")
    query.run()
    # The last batch has no rows: the watermark of the previous batch closes its windows.
    last = int(max((query.checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name)).name)
    expected = ["0 2", "10 2"]
    assert texts(bootstrap_servers, name) == expected
    query.forget_commit(last)
    query.add("3", "36", "70")
    query.run()
    assert texts(bootstrap_servers, name) == [*expected, "30 2"]


class Counting(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002 - Spark's names
        count = (self._count.get()[0] if self._count.exists() else 0) + len(list(rows))
        self._count.update((count,))
        yield Row(value=f"{key[0]} {count}")

    def close(self) -> None:
        pass


def test_counts_of_transform_with_state_are_written_once(query: FileQuery, name: str, bootstrap_servers: str):
    query.shape = lambda frame: frame.groupBy("value").transformWithState(Counting(), "value STRING", "Update", "None")
    query.output_mode = "update"
    query.add("a", "a", "b")
    query.add("a")
    query.run()
    query.forget_commit(1)
    query.add("a", "b")
    # After a small batch, a large one is executed twice: the driver looks at its first rows, then executors write it.
    query.add(*numbered(0, 1_200))
    query.add("7")
    query.run()
    expected = ["a 2", "a 3", "a 4", "b 1", "b 2", "7 2", *(f"{number} 1" for number in range(1_200))]
    assert texts(bootstrap_servers, name) == sorted(expected)


def test_a_batch_that_failed_between_two_sinks_is_once_in_each(
    query: FileQuery, name: str, kafka: dict[str, Any], topics: Topics, bootstrap_servers: str
):
    second = topics.create()
    failing = query.folder / "failing"
    failing.touch()

    def fail(_frame: DataFrame, batch: int) -> None:
        assert batch == 0 or not failing.exists(), "between the sinks"

    query.function = functions(exactly_once(topic=name, **kafka), fail, exactly_once(topic=second, **kafka))
    query.add("0")
    query.add("1")
    assert "between the sinks" in query.refusal()
    assert (texts(bootstrap_servers, name), texts(bootstrap_servers, second)) == (["0", "1"], ["0"])
    failing.unlink()
    query.add("2")
    query.run()
    assert texts(bootstrap_servers, name) == texts(bootstrap_servers, second) == ["0", "1", "2"]


@pytest.mark.parametrize("kept", [True, False], ids=["one function", "a function for each call"])
def test_a_second_dataframe_for_a_batch_is_refused_until_it_has_a_sink_of_its_own(
    query: FileQuery, name: str, kafka: dict[str, Any], bootstrap_servers: str, *, kept: bool
):
    function = exactly_once(topic=name, **kafka)

    def sink(**options: str) -> ExactlyOnce:
        return function if kept and not options else exactly_once(topic=name, **options, **kafka)

    def parts(frame: DataFrame, batch: int) -> None:
        sink()(frame.where("value < 'n'"), batch)
        sink(**second)(frame.where("value >= 'n'"), batch)

    second: dict[str, str] = {}
    query.function = parts
    query.add("a", "z")
    # In the second run, Kafka has the rows of the first call already.
    for _ in range(2):
        assert "was called twice for batch 0, with two DataFrames" in query.refusal()
        assert texts(bootstrap_servers, name) == ["a"]
    second["name"] = f"{name}-second"
    query.add("b", "y")
    query.run()
    assert texts(bootstrap_servers, name) == ["a", "b", "y", "z"]


def test_a_call_that_the_users_code_repeats_adds_nothing(query: FileQuery, name: str, bootstrap_servers: str):
    function = query.function

    def twice(frame: DataFrame, batch: int) -> None:
        # The program's own job group must not make the sink mistake the two calls for two runs of the query.
        frame.sparkSession.sparkContext.setJobGroup("mine", "a batch")
        for _ in range(2):
            function(frame.where("value < 'n'"), batch)

    query.function = twice
    query.add("a", "z")
    query.run()
    query.forget_commit(0)
    query.add("b")
    query.run()
    assert texts(bootstrap_servers, name) == ["a", "b"]


@pytest.mark.parametrize("shared", [False, True], ids=["two functions", "one function"])
def test_a_second_live_query_for_a_sink_is_refused_and_the_first_continues(
    query: FileQuery, other: FileQuery, name: str, bootstrap_servers: str, *, shared: bool
):
    if shared:
        other.function = query.function
    query.add("0")
    running = query.start(available_now=False)
    wait_for(lambda: texts(bootstrap_servers, name) == ["0"], _PATIENCE)
    other.add("a")
    assert f"Sink {name} is written by query {running.id}, which runs in this application" in other.refusal()
    query.add("1")
    wait_for(lambda: texts(bootstrap_servers, name) == ["0", "1"] or not running.isActive, _PATIENCE)
    running.stop()
    assert "holds the batches of another checkpoint" in other.refusal()
    query.add("2")
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]


def test_one_of_two_copies_of_a_checkpoint_continues(
    query: FileQuery, name: str, kafka: dict[str, Any], bootstrap_servers: str
):
    query.add("0")
    query.run()
    function = exactly_once(topic=name, name=name, **kafka)
    copied = FileQuery(query.spark, query.folder, function, checkpoint_name="copy")
    shutil.copytree(query.checkpoint, copied.checkpoint)
    query.add("1")
    query.run()
    told = copied.refusal()
    assert "is in Kafka, but with other rows" in told, told
    query.add("2")
    query.run()
    told = copied.refusal()
    assert "older state of itself, or a copy" in told, told
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]


def test_a_batch_longer_than_its_transaction_may_be_names_the_settings(
    query: FileQuery, name: str, kafka: dict[str, Any], bootstrap_servers: str
):
    query.function = exactly_once(
        topic=name, name=name, **kafka, **{"transaction.timeout.ms": 2_000, "batch.size": 10_000}
    )
    hold(query)
    running = query.start(available_now=False)

    with Admin(ClientConfig(tuple(bootstrap_servers.split(",")))) as admin:

        def is_open() -> bool:
            return any(name in str(found.transactional_id) for found in admin.open_transactions())

        # On a slow machine the transaction may expire before the waiting row is read.
        wait_for(lambda: is_mid_write(query, bootstrap_servers, name) or not running.isActive, _PATIENCE)
        wait_for(lambda: not is_open(), what="the brokers have aborted the transaction")
    (query.folder / "go").touch()
    wait_for(lambda: not running.isActive, _PATIENCE)
    told = str(running.exception())
    assert f"The transaction of batch 0 of sink {name} was open for" in told
    assert "transaction.timeout.ms=2000 is the limit" in told
    assert "maxFilesPerTrigger" in told
    assert texts(bootstrap_servers, name) == []
    query.function = exactly_once(topic=name, name=name, **kafka)
    query.run()
    assert texts(bootstrap_servers, name) == _HELD


def test_brokers_that_do_not_answer_for_a_while_cost_no_row(
    query: FileQuery, name: str, bootstrap_servers: str, fault_proxy: FaultProxy
):
    options = {"bootstrap.servers": fault_proxy.address, "request.timeout.ms": 1_000, "batch.size": 10_000}
    query.function = exactly_once(topic=name, name=name, **options)
    hold(query)
    running = query.start()
    wait_for(lambda: is_mid_write(query, bootstrap_servers, name), _PATIENCE)

    def attempts() -> int:
        # A connection that was closed meanwhile is opened again, and its first request is lost: no Produce follows.
        return fault_proxy.requests[ApiKey.PRODUCE] + fault_proxy.requests[ApiKey.API_VERSIONS]

    # From here on requests are lost, until the writer has retried several times.
    fault_proxy.to_broker = Link.DROP
    before = attempts()
    (query.folder / "go").touch()
    wait_for(lambda: attempts() >= before + 3, _PATIENCE)
    fault_proxy.heal()
    assert running.awaitTermination(int(_PATIENCE))
    assert texts(bootstrap_servers, name) == _HELD


@pytest.mark.parametrize(
    ("row", "options", "told"),
    [
        ("'x' AS value", {"value.converter": "ByteArrayConverter"}, "correct the row, or the sink's options"),
        ("repeat('x', 5000) AS value", {"max.request.size": 1_000}, "raise max.request.size, or make the rows smaller"),
        ("'x' AS value; CAST(NULL AS STRING) AS topic", {"topic": None, "name": "n"}, "rows that have no topic"),
        ("'x' AS value; 1 AS topic", {}, "The column 'topic' of the DataFrame is int"),
    ],
    ids=["refused", "too large", "without a topic", "of another type"],
)
def test_an_error_names_rows_and_options(
    spark: SparkSession, kafka: dict[str, Any], row: str, options: dict[str, Any], told: str
):
    with pytest.raises(FencepostError, match=told) as raised:
        write_kafka(spark.range(1).selectExpr(*row.split("; ")), **{"topic": unique("topic"), **kafka, **options})
    assert not re.search(r"connector|SourceBatch|\btask|worker|override", str(raised.value))


def test_the_documented_listener_shows_commits(query: FileQuery, spark: SparkSession, name: str, capfd: Any):
    (code,) = re.findall(
        r"```python\n(from pyspark[^`]+StreamingQueryListener[^`]+?)\n\norders = ", _DOCUMENTATION.read_text()
    )
    known: dict[str, Any] = {}
    exec(code, known)  # noqa: S102 - the documentation's own
    listener: StreamingQueryListener = known["Commits"](query.function)
    spark.streams.addListener(listener)
    try:
        query.add("0", "1")
        query.run()
        said: list[str] = []
        wait_for(lambda: said.extend(capfd.readouterr().out.splitlines()) or said)
    finally:
        spark.streams.removeListener(listener)
    ((batch, records, size, transactions, transactional_id, last_commit),) = [line.split() for line in said]
    assert (batch, records, transactions, transactional_id) == ("0", "2", "1", f"fencepost-sink-{name}")
    assert int(size) > 0
    assert int(last_commit) > 1_700_000_000_000
