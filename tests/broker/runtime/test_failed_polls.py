"""A source that starts again at its committed offsets after a failed poll, as Debezium's tasks do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

from fencepost import ConfigDef, RetriableError, SourceConnector, SourceRecord, SourceTask
from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_topic, values
from tests.support.processes import wait_for
from tests.support.task_runner import TaskRunner, stop
from tests.support.topics import Topics, unique

COUNT = 6
FAILS_AT = 3
ALL = [str(number).encode() for number in range(COUNT)]
PARTITION = {"source": "numbers"}


class RestartingConnector(SourceConnector):
    """Numbers as one snapshot, whose first read fails half-way."""

    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        return ConfigDef().define("topic", ConfigDef.Type.STRING)

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return RestartingTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:  # noqa: ARG002 - one is enough
        return [self._config]


class RestartingTask(SourceTask):
    failed: ClassVar[set[str]] = set()

    def start(self, config: Mapping[str, str]) -> None:
        self._topic = config["topic"]
        self._next: int | None = None

    def _begin(self) -> int:
        committed = self.context.offset_reader.offset(PARTITION)
        is_read = committed is not None and (committed["last_snapshot_record"] or "in_parts" in self._topic)
        return committed["number"] + 1 if committed is not None and is_read else 0

    def poll(self) -> list[SourceRecord] | None:
        if self._next is None:
            self._next = self._begin()
        if self._next == COUNT:
            return None
        if self._next == FAILS_AT and self._topic not in self.failed:
            self.failed.add(self._topic)
            self._next = None
            raise RetriableError("The connection to the numbers is lost")
        number, self._next = self._next, self._next + 1
        offset: dict[str, Any] = {
            "number": number,
            "snapshot": True,
            "last_snapshot_record": number == COUNT - 1,
        }
        return [SourceRecord(PARTITION, offset, self._topic, value=str(number))]


@pytest.fixture(scope="module")
def runner(broker: EmbeddedBroker) -> Iterator[TaskRunner]:
    with TaskRunner(broker.bootstrap_servers) as runner:
        yield runner


@pytest.mark.parametrize("boundary", ["snapshot", "interval"])
def test_a_poll_that_fails_in_the_midst_doubles_nothing(
    runner: TaskRunner, topics: Topics, bootstrap_servers: str, boundary: str
):
    topic = topics.create(unique("in_parts") if boundary == "interval" else unique("whole"))
    checked = runner.worker.checked(
        {
            "name": unique("connector"),
            "connector.class": f"{__name__}.RestartingConnector",
            "topic": topic,
            "transaction.boundary": boundary,
            "transaction.boundary.interval.ms": "3000",
        }
    )
    connector = runner.worker.new_connector(checked, runner.states)
    connector.start()
    (task_config,) = connector.task_configs()
    task = runner.worker.new_task(checked, 0, task_config, runner.states)
    task.start()
    try:
        wait_for(lambda: ALL[-1] in values(read_topic(bootstrap_servers, topic)))
        assert values(read_topic(bootstrap_servers, topic)) == ALL
    finally:
        stop(task)
