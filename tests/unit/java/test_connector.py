"""A connector in Java, and a task of it, in a real JVM: what they ask their context, and which tasks they want."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from fencepost.config.connector_config import TransactionBoundary
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.java.connector import JavaConnector, java_connector_class
from fencepost.java.task import JavaTask, JavaTaskSetting
from tests.support.java_plugins import WILD, plugin_path

NUMBER = {"number": 2, "large": 2**40, "ratio": 0.5, "is": True, "text": "t", "nothing": None}
READ = "{is=true Boolean, large=1099511627776 Long, nothing=null, number=2 Long, ratio=0.5 Double, text=t String}"
SEEN = {
    "known": READ,
    "unknown": "null",
    "null": "{n=1 Long}",
    "several": f"2 {READ} null",
    "none": "{}",
    "nested": "org.apache.kafka.connect.errors.DataException: A source partition or offset has names that are texts, and "
    "texts, numbers, booleans, bytes or null as values, but the connector gave counter a value of "
    "java.util.ImmutableCollections$List12",
}


class Offsets:
    """Has offsets of the source partition of a counter, and of the source partition null."""

    def offset(self, partition: Any) -> dict[str, Any] | None:
        return {"n": 1} if partition is None else NUMBER if partition == {"counter": "c"} else None

    def offsets(self, partitions: Iterable[Any]) -> list[dict[str, Any] | None]:
        return [self.offset(partition) for partition in partitions]


class Metrics:
    def add_collector(self, _: Any) -> None:
        """No test here looks at metrics."""


@dataclass
class Context:
    config: Mapping[str, str]
    offset_reader: Offsets = field(default_factory=Offsets)
    plugin_metrics: Metrics = field(default_factory=Metrics)
    transaction_context: None = None

    def configs(self) -> Mapping[str, str]:
        return self.config


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> JavaPlugin:
    folder = plugin_path(tmp_path_factory.mktemp("java"), "hostile") / "hostile"
    return JavaPlugin(WILD, folder, tuple(folder.iterdir()))


@contextmanager
def started(plugin: JavaPlugin, **more: str) -> Iterator[JavaConnector]:
    config = {"name": "c", "topic": "t", **more}
    connector = java_connector_class(plugin, JavaSettings())()
    connector.context = cast("Any", Context(config))
    connector.start(config)
    try:
        yield connector
    finally:
        connector.stop()


def part(name: str) -> dict[str, Any]:
    return {"class": f"org.apache.kafka.connect.storage.{name}", "jars": [], "properties": {}}


PIPELINE = {
    "converters": {
        "key.converter": part("StringConverter"),
        "value.converter": part("StringConverter"),
        "header.converter": part("SimpleHeaderConverter"),
    },
    "transforms": [],
    "errors": {
        "tolerates": False, "letters": False, "contents": False, "retry.timeout.ms": 0, "retry.delay.max.ms": 0,
    },
}  # fmt: skip


def test_a_connector_reads_offsets_with_the_types_of_kafka_connect(plugin: JavaPlugin):
    with started(plugin, wild="offsets") as connector:
        (seen,) = connector.task_configs(1)
    assert seen == SEEN | {"task.class": "hostile.WildTask"}


def test_a_task_reads_offsets_with_the_types_of_kafka_connect(plugin: JavaPlugin):
    config = {"name": "c", "topic": "t", "wild": "offsets", "task.class": "hostile.WildTask"}
    with started(plugin) as connector:
        task_class = cast("type[JavaTask]", connector.task_class())
        task = task_class(JavaTaskSetting(ConnectorTaskId("c", 0), TransactionBoundary.POLL, PIPELINE))
        task.context = cast("Any", Context(config))
        task.start(config)
        try:
            # It begins after the committed number, which it takes for a Long.
            batch = next(found for _ in range(60) if (found := task.poll()) is not None)
        finally:
            task.stop()
            task.close()
    assert batch.columns is not None
    (value,) = batch.columns["value"].to_pylist()
    assert value.decode() == "{" + ", ".join(f"{name}={text}" for name, text in SEEN.items()) + "}"
    assert list(batch.offsets) == [({"counter": "c"}, {"number": 3})]


def test_a_connector_may_want_fewer_or_more_tasks_than_it_is_asked_for(plugin: JavaPlugin):
    with started(plugin, counters="a,b") as connector:
        for most in (5, 1):
            tasks = connector.task_configs(most)
            assert [task["counter"] for task in tasks] == ["a", "b"]
            assert {task["task.class"] for task in tasks} == {"hostile.WildTask"}


def test_a_connector_gets_the_plain_names_of_plugins(plugin: JavaPlugin):
    named = {
        "connector.class": f"java:{WILD}", "transforms": "a, b", "transforms.a.type": "java:acme.Smt",
        "transforms.b.type": " java:acme.Smt", "predicates": "p", "predicates.p.type": "java:acme.Is",
        "key.converter": "java:acme.Text", "value.converter": "acme.Text", "header.converter": "java:Header",
        # Other values that begin like that are no names of plugins.
        "transforms.a.url": "java:comp/env", "url": "java:comp/env", "transforms.c.type": "java:comp/env",
    }  # fmt: skip
    with started(plugin, **named) as connector:
        (task,) = connector.task_configs(1)
    assert {name: task[name] for name in named} == named | {
        "connector.class": WILD, "transforms.a.type": "acme.Smt", "transforms.b.type": "acme.Smt",
        "predicates.p.type": "acme.Is", "key.converter": "acme.Text", "header.converter": "Header",
    }  # fmt: skip
