"""Runs a connector on a whole worker, in the test's own process, and reads its records.

    with run_connector(NumbersConnector, {"topic": "numbers"}, broker.bootstrap_servers) as running:
        records = running.wait_for_records("numbers", 10)

Records are read as by a consumer with `isolation.level=read_committed`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self

from fencepost.api.errors import FencepostError
from fencepost.api.source import SourceConnector, describe
from fencepost.testing.topics import read_new, topic_reader

if TYPE_CHECKING:
    from fencepost.config.ids import ConnectorTaskId
    from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
    from fencepost.runtime.connector.source_connector import WorkerConnector
    from fencepost.runtime.state import State
    from fencepost.runtime.task.source_task import WorkerSourceTask

WAIT_S: Final = 120.0
"""How long `RunningConnector` waits for records, or for the end of tasks."""

_CHECK_INTERVAL_S: Final = 0.1
_GROUP: Final = "fencepost-testing"
_OFFSETS_TOPIC: Final = "fencepost-testing-offsets"


class RunningConnector:
    """A connector and its tasks on a worker. Only one thread may use it."""

    def __init__(
        self,
        connector: type[SourceConnector],
        config: Mapping[str, str],
        bootstrap_servers: str,
        *,
        name: str | None = None,
        stop_at_end: bool = False,
    ) -> None:
        """Nothing is started here; see `start` and `run_connector`."""
        # Importing the worker and a Kafka client takes seconds, and pytest imports this module in each of its runs.
        from fencepost.config.worker_config import WorkerConfig  # noqa: PLC0415 - see above
        from fencepost.runtime.worker import Worker  # noqa: PLC0415 - see above

        self.name = name or f"test-{uuid.uuid4().hex[:12]}"
        self._properties = {"name": self.name, "connector.class": describe(connector), **config}
        self._bootstrap_servers = bootstrap_servers
        self._stop_at_end = stop_at_end
        worker = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": _GROUP,
            "offset.storage.topic": _OFFSETS_TOPIC,
            "key.converter": "JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
            "fencepost.plugins.allowed.modules": "*",
        }
        self._worker = Worker(WorkerConfig.from_properties(worker, where="run_connector"))
        self._connector: WorkerConnector | None = None
        self._tasks: list[WorkerSourceTask] = []

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the connector and its tasks. Raises ConfigError, and the errors of the connector."""
        self._worker.start()
        checked = self._worker.checked(self._properties)
        listener = _Listener()
        self._connector = self._worker.new_connector(checked, listener)
        self._connector.start()
        if self._connector.error is not None:
            raise self._connector.error
        for number, config in enumerate(self._connector.task_configs()):
            task = self._worker.new_task(checked, number, config, listener, stop_at_end=self._stop_at_end)
            self._tasks.append(task)
            task.start()

    def wait_for_records(self, topic: str, count: int, timeout_s: float = WAIT_S) -> list[ConsumedRecord]:
        """Return the records of a topic, partition by partition, as soon as there are at least `count`.

        Keys and values are bytes, as the converters made them: JSON, unless the configuration names others. Raises the
        error of a task that failed, and TimeoutError.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            records = self.records(topic)
            if len(records) >= count:
                return records
            self._raise_failure()
            if time.monotonic() > deadline:
                states = ", ".join(f"{task.id} {task.state}" for task in self._tasks)
                raise TimeoutError(
                    f"The topic {topic} has {len(records)} records after {timeout_s:g} s, not {count}. The tasks: {states}"
                )
            time.sleep(_CHECK_INTERVAL_S)

    def wait_until_ended(self, timeout_s: float = WAIT_S) -> None:
        """Wait until all tasks have ended, which only happens with `stop_at_end=True`.

        Raises the errors of `wait_for_records`.
        """
        deadline = time.monotonic() + timeout_s
        for task in self._tasks:
            if not task.join(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"Task {task.id} has not ended after {timeout_s:g} s: it is {task.state}")
        self._raise_failure()

    def records(self, topic: str) -> list[ConsumedRecord]:
        """Return the current records of a topic; none if the topic does not exist."""
        with topic_reader(self._bootstrap_servers, topic) as reader:
            records = read_new(reader)
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def stop(self) -> None:
        """Commit polled records, and stop. Later calls do nothing."""
        tasks, self._tasks = self._tasks, []
        self._worker.stop_tasks(tasks)
        connector, self._connector = self._connector, None
        if connector is not None:
            self._worker.stop_connector(connector)
        self._worker.stop()

    def _raise_failure(self) -> None:
        for task in self._tasks:
            if task.state == "FAILED":
                raise task.error or FencepostError(f"Task {task.id} failed")


class _Listener:
    """Ignores states, because `RunningConnector` itself checks the tasks."""

    def on_task_state(self, task: ConnectorTaskId, state: State, error: Exception | None) -> None:
        pass

    def on_connector_state(self, connector: str, state: State, error: Exception | None) -> None:
        pass

    def on_task_reconfiguration(self, connector: str) -> None:
        pass


def run_connector(
    connector: type[SourceConnector],
    config: Mapping[str, str],
    bootstrap_servers: str,
    *,
    name: str | None = None,
    stop_at_end: bool = False,
) -> RunningConnector:
    """Return a connector on its own worker, which delivers exactly once.

    Use it in a `with` statement, which starts and stops it. `config` is the connector's configuration;
    `connector.class` may be left out. It must be possible to import the connector by its name, because the worker
    imports it. Two runs with the same `name` share their offsets, so the second one resumes; without a `name` each run
    has a new one. With `stop_at_end` tasks end when their sources end.
    """
    return RunningConnector(connector, config, bootstrap_servers, name=name, stop_at_end=stop_at_end)
