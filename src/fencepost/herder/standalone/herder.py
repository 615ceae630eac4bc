"""Runs connectors in one process, exactly once.

One thread, that of `run`, owns all state. Connectors and tasks tell of what happens on threads of their own; it comes
in through a queue, and so does the wish to stop:

    start connectors -> ask for task configs -> fence former tasks -> start tasks -> wait for events -> stop all
                            ^                                                           |
                            └────────────── a connector asks for reconfiguration ───────┘

What a connector or a task fails with does not touch the others.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

from fencepost.api.errors import ConfigError, FencepostError, PluginError, describe_error
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import log_context
from fencepost.herder.errors import ConnectorsFailedError
from fencepost.herder.standalone.generations import Generations
from fencepost.runtime.connector.source_connector import WorkerConnector
from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from fencepost.runtime.worker import Worker

_log: Final = logging.getLogger(__name__)

_ENDED: Final = frozenset({State.STOPPED, State.FAILED})


@dataclass(frozen=True, slots=True)
class _Stop:
    """Somebody asked to stop."""


@dataclass(frozen=True, slots=True)
class _Changed:
    """The state of a connector or task changed."""


@dataclass(frozen=True, slots=True)
class _Reconfigure:
    """A connector wants its tasks configured anew."""

    connector: str


@dataclass(slots=True)
class _Running:
    """A connector with its tasks. `failure` is why it has no tasks although it should."""

    connector: WorkerConnector
    task_configs: list[dict[str, str]] = field(default_factory=list)
    tasks: list[WorkerSourceTask] = field(default_factory=list)
    failure: Exception | None = None

    @property
    def config(self) -> ConnectorConfig:
        return self.connector.config

    def failures(self) -> list[str]:
        """One line for each failure of the connector or a task."""
        error = self.connector.error or self.failure
        lines = [] if error is None else [f"Connector {self.config.name} failed: {describe_error(error)}"]
        failed = [task for task in self.tasks if task.state is State.FAILED]
        return lines + [f"Task {task.id} failed: {describe_error(task.error)}" for task in failed if task.error]


class StandaloneHerder:
    """Starts connectors with their tasks and watches over them. `stop` may be called from any thread or signal."""

    def __init__(self, worker: Worker, connectors: Sequence[Mapping[str, str]], *, once: bool = False) -> None:
        """With `once`, tasks end where their sources end, and `run` returns when all did."""
        self._worker = worker
        self._properties = connectors
        self._once = once
        self._generations = Generations(worker.clients, worker.config)
        self._events: SimpleQueue[_Stop | _Changed | _Reconfigure] = SimpleQueue()
        self._running: dict[str, _Running] = {}
        self._refused: list[str] = []

    def stop(self) -> None:
        """Have `run` commit what is open, stop everything and return."""
        self._events.put(_Stop())

    def run(self) -> None:
        """Run until asked to stop, or until nothing is left to do.

        Raises ConfigError for a configuration that will not do, before anything is started; KafkaError if the brokers
        cannot be used; ConnectorsFailedError if everything failed or, with `once`, anything did: each failure was
        logged when it came about.
        """
        configs = self._checked_configs()
        try:
            self._worker.start()
            self._generations.ensure_topic()
            for config in configs:
                self._start(config)
            stopped = self._watch()
        finally:
            self._stop_all()
        failures = self._refused + [line for running in self._running.values() for line in running.failures()]
        if failures and not stopped:
            raise ConnectorsFailedError("; ".join(failures))

    def _checked_configs(self) -> list[ConnectorConfig]:
        configs = [self._worker.checked(properties, warn=True) for properties in self._properties]
        names = Counter(config.name for config in configs)
        for name, count in names.items():
            if count > 1:
                raise ConfigError(f"{count} connectors are named {name}: give each its own name", name="name")
        return configs

    def _start(self, config: ConnectorConfig) -> None:
        with log_context(config.name):
            self._start_in_context(config)

    def _start_in_context(self, config: ConnectorConfig) -> None:
        try:
            running = _Running(self._worker.new_connector(config, self))
        except FencepostError as error:
            if not isinstance(error, PluginError):
                raise
            self._refuse(config.name, error)
            return
        except Exception as error:  # noqa: BLE001 - a connector's constructor may raise anything; the others run on
            self._refuse(config.name, error)
            return
        self._running[config.name] = running
        running.connector.start()
        if running.connector.state is State.RUNNING:
            self._configure_tasks(running)

    def _refuse(self, name: str, error: Exception) -> None:
        """Take note of a connector that could not be made."""
        line = f"Connector {name} failed: {describe_error(error)}"
        _log.error("%s", line, exc_info=error)
        self._refused.append(line)

    def _configure_tasks(self, running: _Running) -> None:
        """Replace a connector's tasks, unless it wants them as they are."""
        name = running.config.name
        try:
            task_configs = running.connector.task_configs()
            if running.tasks and task_configs == running.task_configs:
                return
            self._worker.stop_tasks(running.tasks)
            running.tasks, running.task_configs = [], task_configs
            generation = self._generations.advance(running.config, len(task_configs))
            running.tasks = [
                self._worker.new_task(running.config, number, config, self, checks=generation, stop_at_end=self._once)
                for number, config in enumerate(task_configs)
            ]
        except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; the others run on
            _log.error("Connector %s has no tasks: %s", name, describe_error(error), exc_info=error)
            running.failure = error
            return
        running.failure = None
        _log.info("Connector %s runs with %d task(s)", name, len(running.tasks))
        for task in running.tasks:
            task.start()

    def _watch(self) -> bool:
        """Follow events until there is nothing left to watch. True if asked to stop before that."""
        while not all(self._has_ended(running) for running in self._running.values()):
            match self._events.get():
                case _Stop():
                    return True
                case _Reconfigure(connector):
                    with log_context(connector):
                        self._configure_tasks(self._running[connector])
                case _Changed():
                    pass
        return False

    def _has_ended(self, running: _Running) -> bool:
        if any(task.state not in _ENDED for task in running.tasks):
            return False
        # A connector that runs without tasks may still find work for some.
        return bool(running.tasks) or self._once or running.failure is not None or running.connector.state in _ENDED

    def _stop_all(self) -> None:
        self._worker.stop_tasks([task for running in self._running.values() for task in running.tasks])
        for running in self._running.values():
            self._worker.stop_connector(running.connector)
        self._worker.stop()

    # What connectors and tasks tell, on threads of their own.

    def on_connector_state(self, connector: str, state: State, error: Exception | None) -> None:
        """Take note of a connector's state."""
        del connector, state, error
        self._events.put(_Changed())

    def on_task_state(self, task: ConnectorTaskId, state: State, error: Exception | None) -> None:
        """Take note of a task's state."""
        del task, state, error
        self._events.put(_Changed())

    def on_task_reconfiguration(self, connector: str) -> None:
        """Ask the connector for its task configurations again."""
        self._events.put(_Reconfigure(connector))
