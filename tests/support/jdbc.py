"""Runs JdbcSource on a worker in the test's own process, and reads the records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from tests.support.checker import read_offsets, read_topic
from tests.support.postgres import Database
from tests.support.processes import wait_for
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import unique

_PATIENCE_SECONDS = 480.0


class JdbcRun:
    """One connector with one task. `start` starts the task again from its committed offsets."""

    def __init__(self, runner: TaskRunner, bootstrap_servers: str, url: str, config: Mapping[str, Any]) -> None:
        self.name = unique("jdbc")
        self.prefix = f"{self.name}-"
        self._runner = runner
        self._servers = bootstrap_servers
        self.config = {
            "name": self.name,
            "connector.class": "JdbcSource",
            "connection.url": url,
            "connection.user": "postgres",
            "topic.prefix": self.prefix,
            "poll.interval.ms": "5",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
        } | {key: str(value) for key, value in config.items()}
        self.task: WorkerSourceTask | None = None

    @classmethod
    def on(cls, runner: TaskRunner, bootstrap_servers: str, database: Database, **config: Any) -> Self:
        """A connector that reads a database; properties such as `mode` have underscores for dots."""
        named = {key.replace("_", "."): value for key, value in config.items()}
        return cls(runner, bootstrap_servers, database.jdbc_url, named)

    def start(self, **changes: Any) -> WorkerSourceTask:
        self.config |= {key.replace("_", "."): str(value) for key, value in changes.items()}
        checked = self._runner.worker.checked(self.config)
        connector = self._runner.worker.new_connector(checked, self._runner.states)
        connector.start()
        (task_config,) = connector.task_configs()
        self.task = self._runner.worker.new_task(checked, 0, task_config, self._runner.states)
        self.task.start()
        return self.task

    def stop(self) -> None:
        if self.task is not None:
            stop(self.task)
            assert self.task.error is None, self.task.error
            self.task = None

    def wait_until_failed(self) -> str:
        """Wait until the task has failed, and return its error."""
        assert self.task is not None
        wait_for_state(self.task, State.FAILED)
        error, self.task = self.task.error, None
        return str(error)

    def values(self, table: str) -> list[Any]:
        """The values of a table's topic; empty if the topic does not exist yet."""
        try:
            records = read_topic(self._servers, self.prefix + table)
        except KeyError:
            return []
        return [json.loads(record.value or b"null") for record in records]

    def wait_for_values(self, table: str, count: int) -> list[Any]:
        """Wait until a table's topic has this many records, and return their values."""
        found: list[Any] = []

        def enough() -> bool:
            assert self.task is None or self.task.error is None, self.task.error
            found[:] = self.values(table)
            return len(found) >= count

        # Spark may take minutes to start on a busy machine.
        wait_for(enough, what=f"{count} records of {table}", timeout=_PATIENCE_SECONDS)
        assert len(found) == count, found
        return found

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        return read_offsets(self._servers, self._runner.offsets_topic, self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.task is not None:
            stop(self.task)
