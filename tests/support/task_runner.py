"""Runs source tasks on a Worker in the test's own process."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig
from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from fencepost.runtime.worker import Worker
from tests.support import sequence_source
from tests.support.processes import wait_for
from tests.support.sequence_source import SEEN, Seen
from tests.support.topics import unique


class States:
    """A listener that keeps the states which tasks and connectors report."""

    def __init__(self) -> None:
        self.of_tasks: list[tuple[ConnectorTaskId, State, Exception | None]] = []

    def on_task_state(self, task: ConnectorTaskId, state: State, error: Exception | None) -> None:
        self.of_tasks.append((task, state, error))

    def on_connector_state(self, connector: str, state: State, error: Exception | None) -> None:
        assert error is None, f"connector {connector} became {state}: {error}"

    def on_task_reconfiguration(self, connector: str) -> None:
        raise AssertionError(connector)

    def of(self, task: WorkerSourceTask) -> list[State]:
        return [state for task_id, state, _ in self.of_tasks if task_id == task.id]


class TaskRunner:
    """A worker with its own offsets topic, and tasks of SequenceConnectors on it."""

    def __init__(
        self, bootstrap_servers: str, worker_properties: Mapping[str, str] | None = None, *, group: str | None = None
    ) -> None:
        group = group or unique("group")
        self.states = States()
        self.offsets_topic = f"{group}-offsets"
        self.worker = Worker(
            WorkerConfig.from_properties(
                {
                    "bootstrap.servers": bootstrap_servers,
                    "group.id": group,
                    "connector.client.config.override.policy": "All",
                    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                    "offset.storage.topic": self.offsets_topic,
                    "offset.storage.partitions": "2",
                    "offset.flush.interval.ms": "600000",
                }
                | dict(worker_properties or {}),
                where="test worker",
            )
        )
        self._tasks: list[WorkerSourceTask] = []

    def __enter__(self) -> Self:
        self.worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        late = self.worker.stop_tasks(self._tasks)
        self.worker.stop()
        assert not [task for task in late if not task.join(120)]

    def task(
        self, name: str, topic: str, config: Mapping[str, Any] | None = None, **options: Any
    ) -> tuple[WorkerSourceTask, Seen]:
        """A new task of a SequenceConnector, not started, and the record of its calls."""
        checked = self.worker.checked(sequence_source.properties(name, topic, config))
        connector = self.worker.new_connector(checked, self.states)
        connector.start()
        (task_config,) = connector.task_configs()
        task = self.worker.new_task(checked, 0, task_config, self.states, **options)
        self._tasks.append(task)
        return task, SEEN[name]

    def run_to_end(self, config: Mapping[str, str]) -> WorkerSourceTask:
        """Run the one task of a connector until its source ends or it fails, and return it."""
        checked = self.worker.checked(dict(config))
        connector = self.worker.new_connector(checked, self.states)
        connector.start()
        (task_config,) = connector.task_configs()
        task = self.worker.new_task(checked, 0, task_config, self.states, stop_at_end=True)
        task.start()
        assert task.join(480)
        return task

    def started(
        self, name: str, topic: str, config: Mapping[str, Any] | None = None, **options: Any
    ) -> tuple[WorkerSourceTask, Seen]:
        """A new task of a SequenceConnector, started, and the record of its calls."""
        task, seen = self.task(name, topic, config, **options)
        task.start()
        return task, seen


def stop(task: WorkerSourceTask) -> None:
    """Stop a task, and wait until it has stopped."""
    task.stop()
    assert task.join(120), f"{task.id} did not stop"


def wait_for_state(task: WorkerSourceTask, state: State) -> None:
    wait_for(lambda: task.state is state, what=f"{task.id} to become {state}; it is {task.state}: {task.error}")
