"""Metrics that converters, transforms and predicates add (KIP-877), counted in the worker and on Spark's executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import DataType

from fencepost import (
    ConfigDef,
    Monitorable,
    PluginCounter,
    PluginMetrics,
    Predicate,
    Transformation,
)
from fencepost.converters.string_converter import StringConverter
from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from tests.support.checker import read_topic
from tests.support.processes import wait_for
from tests.support.rows_source import ROWS, ROWS_CONNECTOR
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import Topics, unique

SMALL, LARGE = 1, 1 << 30
PREFIX = "kafka_connect_plugins_"


@pytest.fixture(scope="module")
def runner(broker: Any) -> Iterator[TaskRunner]:
    with TaskRunner(str(broker.bootstrap_servers), {"spark.master": "local[2]"}) as runner:
        # Executors write large batches only once Spark has started.
        runner.worker.engine.session()
        yield runner


@pytest.fixture
def name() -> str:
    return unique("connector")


class CountingConverter(StringConverter, Monitorable):
    """Counts its values, and each topic's values with a counter that it adds at the topic's first value."""

    def with_plugin_metrics(self, metrics: PluginMetrics) -> None:
        self.metrics = metrics
        self.converted = metrics.add_counter("values-converted", "Values that were converted")
        self.of_topics: dict[str, PluginCounter] = {}
        metrics.add_metric("topics-known", "Topics that the worker's converter knows", lambda: len(self.of_topics))

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        if topic not in self.of_topics:
            self.of_topics[topic] = self.metrics.add_counter("values-of-topic", "Values", tags={"topic": topic})
        self.converted.increment(len(values))
        self.of_topics[topic].increment(len(values))
        return super().from_connect_data(topic, schema, values)


class CountingTransform(Transformation, Monitorable):
    """Counts batches when they are planned, and rows when they are computed."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        """There is nothing to configure."""

    def with_plugin_metrics(self, metrics: PluginMetrics) -> None:
        self.planned = metrics.add_counter("batches-planned", "Batches that were planned")
        self.rows = metrics.add_counter("rows-seen", "Rows that were seen")

    def apply(self, records: DataFrame) -> DataFrame:
        self.planned.increment()
        return records.withColumn("value", _counted(self.rows)(F.col("value").cast("STRING")))


class CountingPredicate(Predicate, Monitorable):
    """Selects all records, and counts them."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        """There is nothing to configure."""

    def with_plugin_metrics(self, metrics: PluginMetrics) -> None:
        self.rows = metrics.add_counter("rows-tested", "Rows that were tested")

    def test(self, records: DataFrame) -> Column:
        del records
        return _counted(self.rows)(F.col("topic")).isNotNull()


def _counted(rows: PluginCounter) -> Any:
    def counted(value: str) -> str:
        rows.increment()
        return value

    return F.udf(counted, "STRING", useArrow=False).asNondeterministic()


def started(runner: TaskRunner, name: str, topics: Sequence[str], size: int, config: Mapping[str, str]) -> Any:
    given = {
        "name": name,
        "connector.class": ROWS_CONNECTOR,
        "topics": ",".join(topics),
        "bytes": str(size),
    }
    checked = runner.worker.checked(given | dict(config))
    connector = runner.worker.new_connector(checked, runner.states)
    connector.start()
    (task_config,) = connector.task_configs()
    task = runner.worker.new_task(checked, 0, task_config, runner.states)
    task.start()
    return task


def shown(runner: TaskRunner, connector: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The metrics of a task's plugins, by name and by their labels other than connector and task."""
    found = {}
    for family in runner.worker.metrics.registry.collect():
        for sample in family.samples:
            labels = dict(sample.labels)
            if sample.name.startswith(PREFIX) and labels.pop("connector") == connector:
                assert labels.pop("task") == "0"
                found[sample.name.removeprefix(PREFIX), tuple(labels.items())] = sample.value
    return found


def wait_for_rows(runner: TaskRunner, task: WorkerSourceTask, topics: Sequence[str]) -> None:
    wait_for_state(task, State.RUNNING)
    servers = runner.worker.config.bootstrap_servers
    wait_for(lambda: task.error is not None or sum(len(read_topic(servers, topic)) for topic in topics) == ROWS)
    assert task.error is None


COUNTED = {"value.converter": f"{__name__}.CountingConverter"}


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["by the worker", "by executors"])
def test_a_converter_counts_wherever_it_runs_until_its_task_ends(
    runner: TaskRunner, topics: Topics, name: str, size: int
):
    targets = [topics.create(partitions=2), topics.create(partitions=2)]
    task = started(runner, name, targets, size, COUNTED)
    wait_for_rows(runner, task, targets)
    of = (("converter", "value"),)
    assert shown(runner, name) == {
        ("values_converted_total", of): ROWS,
        ("values_of_topic_total", (*of, ("topic", targets[0]))): ROWS / 2,
        ("values_of_topic_total", (*of, ("topic", targets[1]))): ROWS / 2,
        # The gauge reads the worker's converter. Executors have copies of it.
        ("topics_known", of): 2 if size == SMALL else 0,
    }
    stop(task)
    assert shown(runner, name) == {}


def test_converters_of_keys_and_headers_have_labels_of_their_own(runner: TaskRunner, topics: Topics, name: str):
    topic = topics.create()
    roles = ("key", "value", "header")
    config = {f"{role}.converter": f"{__name__}.CountingConverter" for role in roles}
    task = started(runner, name, [topic], SMALL, config)
    wait_for_rows(runner, task, [topic])
    labelled = {labels for metric, labels in shown(runner, name) if metric == "values_converted_total"}
    assert labelled == {(("converter", role),) for role in roles}
    stop(task)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_transforms_and_predicates_count_rows_on_executors(runner: TaskRunner, topics: Topics, name: str, size: int):
    topic = topics.create(partitions=2)
    config = COUNTED | {
        "transforms": "first,second",
        "transforms.first.type": f"{__name__}.CountingTransform",
        "transforms.second.type": f"{__name__}.CountingTransform",
        "transforms.second.predicate": "all",
        "predicates": "all",
        "predicates.all.type": f"{__name__}.CountingPredicate",
    }
    task = started(runner, name, [topic], size, config)
    wait_for_rows(runner, task, [topic])
    found = shown(runner, name)
    for alias in ("first", "second"):
        assert found["batches_planned_total", (("transformation", alias),)] == 1
        assert found["rows_seen_total", (("transformation", alias),)] == ROWS
    assert found["rows_tested_total", (("transformation", "second"), ("predicate", "all"))] == ROWS
    assert found["values_converted_total", (("converter", "value"),)] == ROWS
    stop(task)
    assert shown(runner, name) == {}
