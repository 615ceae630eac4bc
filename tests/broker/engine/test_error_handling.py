"""Tasks whose transforms or converters refuse records, with each `errors.tolerance`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import DataType

from fencepost import ConfigDef, SourceBatch, SourceConnector, SourceRecord, SourceTask
from fencepost.api.errors import RetriableError
from fencepost.api.plugin import Transformation
from fencepost.converters.string_converter import StringConverter
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.errors import RecordRefusedError
from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from tests.support.checker import read_offsets, read_topic, values
from tests.support.engine import NumberReader, splits
from tests.support.processes import wait_for
from tests.support.sequence_source import SEEN, seqs
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import Topics, unique

ROWS = 60
REFUSED = (7, 41)


class PickyConverter(StringConverter):
    """Refuses values with the text "refuse", and the numbers in REFUSED."""

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        texts = values.to_pylist()
        for text in texts:
            if "refuse" in text or text in map(str, REFUSED):
                raise ValueError(f"{text} is refused")
        return super().from_connect_data(topic, schema, values)


class FlakyConverter(StringConverter):
    """Raises a retriable error some times, and then succeeds."""

    failures = 0
    away = False

    def configure(self, configs: Mapping[str, str], *, is_key: bool = False) -> None:
        if FlakyConverter.away:
            FlakyConverter.away = False
            raise RetriableError("the registry is away")
        super().configure(configs, is_key=is_key)

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        if FlakyConverter.failures:
            FlakyConverter.failures -= 1
            raise RetriableError("the registry is away")
        return super().from_connect_data(topic, schema, values)


class PickyTransform(Transformation):
    """Refuses numbers in REFUSED, and values with the text "refuse", as an SQL expression would."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        pass

    def apply(self, records: DataFrame) -> DataFrame:
        value = F.col("value")
        refused = value.contains("refuse") | value.isin([str(number) for number in REFUSED])
        return records.withColumn("value", F.when(refused, F.raise_error(F.lit("refused"))).otherwise(value))


def converter(kind: type) -> dict[str, str]:
    return {"value.converter": f"{__name__}.{kind.__name__}"}


TRANSFORM = {"transforms": "picky", "transforms.picky.type": f"{__name__}.PickyTransform"}
SKIPPING = {"errors.tolerance": "all", "errors.log.enable": "true"}


@pytest.fixture(scope="module")
def runner(broker: EmbeddedBroker) -> Iterator[TaskRunner]:
    with TaskRunner(broker.bootstrap_servers, {"spark.master": "local[2]"}) as runner:
        yield runner


@pytest.fixture
def name() -> str:
    return unique("connector")


def counted(runner: TaskRunner, connector: str, metric: str) -> float | None:
    registry = runner.worker.metrics.registry
    labels = {"connector": connector, "task": "0"}
    return registry.get_sample_value(f"kafka_connect_task_error_{metric}", labels)


def _spoiled(*spoiled: int) -> Any:
    def spoil(_: Any, records: Sequence[SourceRecord]) -> list[SourceRecord]:
        return [
            replace(record, value="refuse this") if record.source_offset["saved"] in spoiled else record
            for record in records
        ]

    return spoil


@pytest.mark.parametrize("refusing", [converter(PickyConverter), TRANSFORM], ids=["converter", "transform"])
def test_refused_records_are_skipped_with_all_others_delivered(
    runner: TaskRunner,
    bootstrap_servers: str,
    topic: str,
    name: str,
    caplog: pytest.LogCaptureFixture,
    *,
    refusing: dict[str, str],
):
    config = {"limit": 8, "messages.per.poll": 4} | refusing | SKIPPING
    task, seen = runner.task(name, topic, config, stop_at_end=True)
    seen.on_poll = _spoiled(1, 6, 8)
    with caplog.at_level(logging.ERROR):
        task.start()
        assert task.join(480)
    assert task.state is State.STOPPED, task.error
    good = [seq for seq in range(1, 9) if seq not in (1, 6, 8)]
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == good
    assert [seq for seq, metadata in sorted(seen.metadata.items()) if metadata is None] == [1, 6, 8]
    assert seen.committed == list(range(1, 9))
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == [({"task.id": f"{name}-0"}, {"saved": 8})]
    assert counted(runner, name, "total_records_skipped") == 3
    logged = [record.getMessage() for record in caplog.records if f"{name}-0" in record.getMessage()]
    assert len(logged) == 3
    assert "'saved': 6" in logged[1]


def test_a_refused_record_fails_its_task_and_nothing_of_its_transaction_is_visible(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, {"transaction.boundary": "interval"} | converter(PickyConverter))
    seen.on_poll = _spoiled(142)
    task.start()
    wait_for_state(task, State.FAILED)
    assert isinstance(task.error, RecordRefusedError)
    told = str(task.error)
    assert f"topic {topic} failed in the stage VALUE_CONVERTER (PickyConverter): ValueError" in told
    assert f"{{'task.id': '{name}-0'}}" in told
    assert "{'saved': 142}" in told
    assert task.join(120)
    assert counted(runner, name, "total_record_errors") == 1
    assert read_topic(bootstrap_servers, topic) == []
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == []


def test_retriable_errors_are_retried_while_the_transaction_is_open(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    FlakyConverter.failures = 2
    config = {"limit": 10, "errors.retry.timeout": 600_000, "errors.retry.delay.max.ms": 10}
    task, _ = runner.started(name, topic, config | converter(FlakyConverter), stop_at_end=True)
    assert task.join(120)
    assert runner.states.of(task) == [State.RUNNING, State.STOPPED]
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, 11))


def test_a_task_with_a_retriable_record_failure_restarts(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    # The first failure is the batch's, the second one is its first record's, tried alone.
    FlakyConverter.failures = 2
    config = {"limit": 2, "messages.per.poll": 2, "task.restart.backoff.ms": 10} | converter(FlakyConverter)
    task, _ = runner.started(name, topic, config, stop_at_end=True)
    assert task.join(120)
    assert runner.states.of(task) == [State.RUNNING, State.RESTARTING, State.RUNNING, State.STOPPED]
    reason = next(error for of, state, error in runner.states.of_tasks if of == task.id and state is State.RESTARTING)
    assert "VALUE_CONVERTER (FlakyConverter): the registry is away" in str(reason)
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == [1, 2]


def test_a_task_with_a_retriable_converter_creation_failure_restarts(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    config = {"limit": 2, "task.restart.backoff.ms": 10} | converter(FlakyConverter)
    task, _ = runner.task(name, topic, config, stop_at_end=True)
    FlakyConverter.away = True
    task.start()
    assert task.join(120)
    assert runner.states.of(task) == [State.RESTARTING, State.RUNNING, State.STOPPED]
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == [1, 2]


@pytest.fixture
def waiting(runner: TaskRunner, topic: str, name: str) -> Iterator[WorkerSourceTask]:
    """A task with two batches in one transaction, of which the second one is retried for ever."""
    config = {"limit": 8, "messages.per.poll": 4, "transaction.boundary": "interval", "errors.retry.timeout": -1}
    task, seen = runner.task(name, topic, config | converter(FlakyConverter))

    def fail(_: Any, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        FlakyConverter.failures = 1_000_000 if seen.polls == 2 else 0
        return records

    seen.on_poll = fail
    try:
        task.start()
        wait_for(lambda: 0 < FlakyConverter.failures < 1_000_000)
        yield task
    finally:
        FlakyConverter.failures = 0
        stop(task)


def test_a_stop_ends_the_pause_before_a_retry(
    waiting: WorkerSourceTask, runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    waiting.stop()
    assert waiting.join(30)
    assert waiting.state is State.STOPPED
    assert read_topic(bootstrap_servers, topic) == []
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == []


def test_a_task_that_is_paused_before_a_retry_reads_all_again(
    waiting: WorkerSourceTask, runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    waiting.pause()
    wait_for_state(waiting, State.PAUSED)
    assert read_topic(bootstrap_servers, topic) == []
    waiting.resume()
    wait_for(lambda: SEEN[name].polls >= 5)
    stop(waiting)
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, 9))
    assert runner.states.of(waiting) == [State.RUNNING, State.PAUSED, State.RUNNING, State.STOPPED]


class NumbersConnector(SourceConnector):
    """The numbers below ROWS, as one SourceBatch."""

    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        return ConfigDef().define("topic", ConfigDef.Type.STRING).define("columns", ConfigDef.Type.STRING, "")

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return NumbersTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:  # noqa: ARG002 - one is enough
        return [self._config]


class NumbersTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._columns = tuple(name for name in config.get("columns", "").split(",") if name)
        self._topics = (config["topic"],)
        self._done = self.context.offset_reader.offset({"numbers": 1}) is not None

    def poll(self) -> SourceBatch | None:
        if self._done:
            return None
        self._done = True
        reader = NumberReader(self._columns, self._topics, rows=10)
        return SourceBatch(None, [({"numbers": 1}, {"done": 1})], reader, splits(ROWS, 3))

    def at_end(self) -> bool:
        return self._done


@pytest.mark.parametrize(
    ("config", "log"),
    [(converter(PickyConverter) | {"columns": "key"}, "VALUE_CONVERTER"), (TRANSFORM, "TRANSFORMATION")],
    ids=["converter", "transform"],
)
def test_refused_rows_of_a_batch_are_skipped_on_the_executors(
    runner: TaskRunner,
    bootstrap_servers: str,
    topics: Topics,
    name: str,
    caplog: pytest.LogCaptureFixture,
    *,
    config: dict[str, str],
    log: str,
):
    topic = topics.create(partitions=2)
    given = {"name": name, "connector.class": f"{__name__}.NumbersConnector", "topic": topic}
    checked = runner.worker.checked(given | config | SKIPPING)
    connector = runner.worker.new_connector(checked, runner.states)
    connector.start()
    (task_config,) = connector.task_configs()
    task = runner.worker.new_task(checked, 0, task_config, runner.states, stop_at_end=True)
    with caplog.at_level(logging.ERROR):
        task.start()
        assert task.join(480)
    assert task.state is State.STOPPED, task.error
    found = read_topic(bootstrap_servers, topic)
    assert sorted(int(record.value or b"") for record in found) == [n for n in range(ROWS) if n not in REFUSED]
    for partition in range(2):
        own = [int(record.value or b"") for record in found if record.partition == partition]
        assert own == sorted(own)
    # Read uncommitted shows no more records: failed attempts wrote nothing.
    assert len(read_topic(bootstrap_servers, topic, isolation="read_uncommitted")) == len(found)
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == [({"numbers": 1}, {"done": 1})]
    logged = [record.getMessage() for record in caplog.records if f"{name}-0" in record.getMessage()]
    assert [log in line for line in logged] == [True, True]
