"""Tasks whose records pass through Spark: transforms that drop or reroute, and Spark workers that die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost import ConfigDef, SourceBatch, SourceConnector, SourceRecord, SourceTask
from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from tests.support.checker import read_offsets, read_topic, values
from tests.support.rows_source import ROWS, ROWS_CONNECTOR
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, wait_for_state
from tests.support.topics import Topics, unique

DROP_TOMBSTONES = {
    "transforms": "drop",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "empty",
    "predicates": "empty",
    "predicates.empty.type": "RecordIsTombstone",
}


@pytest.fixture(scope="module")
def runner(bootstrap_servers_of_module: str) -> Iterator[TaskRunner]:
    settings = {"spark.master": "local[2]", "spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}
    with TaskRunner(bootstrap_servers_of_module, settings) as runner:
        # Executors write large batches only once Spark has started.
        runner.worker.engine.session()
        yield runner


@pytest.fixture(scope="module")
def bootstrap_servers_of_module(broker: Any) -> str:
    return str(broker.bootstrap_servers)


@pytest.fixture
def name() -> str:
    return unique("connector")


def _emptied(seq: int) -> Any:
    """A function that takes the value from every record whose `seq` is at least this."""

    def empty(_: Any, records: Sequence[SourceRecord]) -> list[SourceRecord]:
        return [
            record
            if record.source_offset["saved"] < seq
            else SourceRecord(record.source_partition, record.source_offset, record.topic)
            for record in records
        ]

    return empty


def test_dropped_records_are_reported_without_metadata_and_with_offsets(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    config = {"limit": 30, "messages.per.poll": 10} | DROP_TOMBSTONES
    task, seen = runner.task(name, topic, config, stop_at_end=True)
    seen.on_poll = _emptied(16)
    task.start()
    assert task.join(480)
    assert task.state is State.STOPPED, task.error
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, 16))
    assert seen.committed == list(range(1, 31))
    assert [seq for seq, metadata in sorted(seen.metadata.items()) if metadata is None] == list(range(16, 31))
    # The second batch's offset is its last record's, although dropped; the third batch's offset came at the end.
    saved = [record.value for record in read_topic(bootstrap_servers, runner.offsets_topic) if name in str(record.key)]
    assert saved == [b'{"saved":10}', b'{"saved":20}', b'{"saved":30}']


def test_a_transaction_of_dropped_records_only_is_committed(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, {"limit": 10} | DROP_TOMBSTONES, stop_at_end=True)
    seen.on_poll = _emptied(1)
    task.start()
    assert task.join(480)
    assert task.state is State.STOPPED, task.error
    assert seen.committed == list(range(1, 11))
    assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") == []
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == [({"task.id": f"{name}-0"}, {"saved": 10})]


def test_a_transform_that_routes_records_to_the_own_offsets_topic_fails_the_task(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    before = read_topic(bootstrap_servers, runner.offsets_topic, isolation="read_uncommitted")
    config = {
        "transforms": "route",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": runner.offsets_topic,
    }
    task, _ = runner.started(name, topic, config)
    wait_for_state(task, State.FAILED)
    assert "its own source offsets" in str(task.error)
    assert task.join(120)
    after = read_topic(bootstrap_servers, runner.offsets_topic, isolation="read_uncommitted")
    assert after == before, "the check comes before the send"


def test_a_topic_that_a_transform_names_is_created_as_the_connector_says(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, name: str
):
    routed = unique("routed")
    config = {
        "limit": 10,
        "transforms": "route",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": routed,
        "topic.creation.default.partitions": 3,
        "topic.creation.default.replication.factor": 1,
    }
    before_the_transform = unique("topic")
    task, _ = runner.started(name, before_the_transform, config, stop_at_end=True)
    assert task.join(480)
    assert task.state is State.STOPPED, task.error
    assert sorted(seqs(values(read_topic(bootstrap_servers, routed)), name)) == list(range(1, 11))
    assert (topics.partitions(routed), topics.partitions(before_the_transform)) == (3, None)


class KilledOnceConnector(SourceConnector):
    """A DataFrame whose Python worker kills itself at the first read."""

    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        return ConfigDef().define("marker", ConfigDef.Type.STRING).define("topic", ConfigDef.Type.STRING)

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return KilledOnceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:  # noqa: ARG002 - one is enough
        return [self._config]


class KilledOnceTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._marker = config["marker"]
        self._done = self.context.offset_reader.offset({"frame": 1}) is not None

    def poll(self) -> SourceBatch | None:
        if self._done:
            return None
        self._done = True
        marker = self._marker

        def die_once(batches: Any) -> Any:
            for number, batch in enumerate(batches):
                if number == 2 and not Path(marker).exists():
                    Path(marker).touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield batch

        frame = (
            self.context.spark_session()
            .range(0, 20_000, numPartitions=2)
            .select(F.col("id").cast("string").alias("value"))
        )
        frame = frame.mapInArrow(die_once, "value STRING")
        return SourceBatch(frame, [({"frame": 1}, {"done": 1})])

    def at_end(self) -> bool:
        return self._done


def test_a_task_whose_python_worker_is_killed_delivers_exactly_once(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, name: str, tmp_path: Path
):
    topic = topics.create(partitions=2)
    task = runner.run_to_end(
        {
            "name": name,
            "connector.class": f"{__name__}.KilledOnceConnector",
            "topic": topic,
            "marker": str(tmp_path / "died"),
        }
    )
    assert runner.states.of(task) == [State.RUNNING, State.RESTARTING, State.RUNNING, State.STOPPED]
    found = sorted(int(value or b"") for value in values(read_topic(bootstrap_servers, topic)))
    assert found == list(range(20_000))
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == [({"frame": 1}, {"done": 1})]


SMALL, LARGE = 1, 1 << 30


def started(runner: TaskRunner, name: str, topics: str, size: int, config: Mapping[str, Any]) -> WorkerSourceTask:
    given = {"name": name, "connector.class": ROWS_CONNECTOR, "topics": topics, "bytes": str(size)}
    checked = runner.worker.checked(given | config)
    connector = runner.worker.new_connector(checked, runner.states)
    connector.start()
    (task_config,) = connector.task_configs()
    task = runner.worker.new_task(checked, 0, task_config, runner.states, stop_at_end=True)
    task.start()
    return task


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["by the worker", "by executors"])
def test_topics_that_only_rows_name_are_created_with_the_connectors_settings(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, name: str, size: int
):
    one, other = unique("one"), unique("other")
    config = {
        "topic.creation.groups": "wide",
        "topic.creation.wide.include": "other.*",
        "topic.creation.wide.partitions": "5",
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
    }
    task = started(runner, name, f"{one},{other}", size, config)
    assert task.join(480)
    assert task.state is State.STOPPED, task.error
    assert (topics.partitions(one), topics.partitions(other)) == (2, 5)
    for number, topic in enumerate((one, other)):
        found = sorted(int(value or b"") for value in values(read_topic(bootstrap_servers, topic)))
        assert found == list(range(number, ROWS, 2))


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["by the worker", "by executors"])
def test_rows_for_the_connectors_own_offsets_topic_are_refused_before_sending(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, size: int
):
    before = read_topic(bootstrap_servers, runner.offsets_topic, isolation="read_uncommitted")
    task = started(runner, name, f"{topic},{runner.offsets_topic}", size, {})
    wait_for_state(task, State.FAILED)
    assert "its own source offsets" in str(task.error)
    assert task.join(60)
    assert read_topic(bootstrap_servers, topic) == []
    assert read_topic(bootstrap_servers, runner.offsets_topic, isolation="read_uncommitted") == before
