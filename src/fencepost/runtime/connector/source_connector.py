"""The life cycle of a source connector, which defines the work of its tasks. `state` describes the states."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.context import OffsetReader
from fencepost.api.errors import ConfigError, PluginError, describe_error
from fencepost.api.plugin_calls import as_failure, kind_of
from fencepost.api.source import describe
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.log_context import log_context
from fencepost.runtime.plugin_metrics import MetricKinds, PluginSample, WorkerPluginMetrics
from fencepost.runtime.state import State, check_transition
from fencepost.storage.offsets.partition_guard import OnShared, Watch

_log: Final = logging.getLogger(__name__)


class ConnectorListener(Protocol):
    """Is notified about a connector, on any thread."""

    def on_connector_state(self, connector: str, state: State, error: Exception | None) -> None:
        """Called with a new state. If that is FAILED, `error` is the reason. Must not raise."""

    def on_task_reconfiguration(self, connector: str) -> None:
        """Request the connector's task configurations again later, on another thread. Must not raise."""


class WorkerConnector:
    """Runs one source connector. Only one thread at a time may start, pause and stop it.

    All other methods are thread-safe.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        connector: ConnectorInstance,
        offset_reader: OffsetReader,
        listener: ConnectorListener,
        allowed_paths: AllowedPaths,
        *,
        watch: Callable[[OnShared], Watch] | None = None,
        kinds: MetricKinds | None = None,
    ) -> None:
        """`watch` starts to watch for shared source partitions. It is called each time the connector becomes RUNNING.

        `kinds` has the types of the worker's plugin metrics.
        """
        self.config = config
        self.allowed_paths = allowed_paths
        self._connector = connector
        self._offset_reader = offset_reader
        self._listener = listener
        self._new_watch = watch
        self._kinds = kinds
        self._plugin_metrics = self._new_plugin_metrics()
        self._watch: Watch | None = None
        self._lock = threading.RLock()
        self._reporting = threading.Lock()
        # Errors that the connector reports while it starts. They are only collected here: `start` may wait for the
        # thread that reports an error, so that thread must not wait for `start`.
        self._early: list[Exception] | None = None
        # Whether the connector has to be stopped. Reports that it sends during its stop are ignored.
        self._started = False
        self._state = State.UNASSIGNED
        self._error: Exception | None = None

    @property
    def state(self) -> State:
        """The connector's state."""
        return self._state

    @property
    def error(self) -> Exception | None:
        """Why the connector is FAILED."""
        return self._error

    @property
    def version(self) -> str:
        """The connector's own version."""
        return self._connector.version()

    def start(self) -> None:
        """Start, or resume after a pause. If the connector raises an exception, it becomes FAILED."""
        with self._lock, log_context(self.config.name):
            self._plugin_metrics = self._new_plugin_metrics()
            self._early = []
            try:
                self._connector.start(dict(self.config.properties), self)
            except Exception as error:  # noqa: BLE001 - a connector may raise anything; it ends in the status
                self._take_early()
                self._fail(error)
            else:
                early = self._take_early()
                self._started = True
                self._set_state(State.RUNNING)
                if early:
                    self._fail(early[0])

    def _take_early(self) -> list[Exception]:
        with self._reporting:
            early, self._early = self._early or [], None
        return early

    def pause(self) -> None:
        """Stop monitoring the source until `start` is called again."""
        with log_context(self.config.name):
            with self._lock:
                if self._state is not State.RUNNING:
                    return
                self._started = False
            self._stop_connector()
            self._set_state(State.PAUSED)

    def stop(self) -> None:
        """Stop. Does nothing if the connector is already stopped."""
        with log_context(self.config.name):
            with self._lock:
                started, self._started = self._started, False
                ended = self._state in (State.STOPPED, State.FAILED)
            if started:
                self._stop_connector()
            if not ended:
                self._set_state(State.STOPPED)

    def abandon(self) -> None:
        """Give up a connector whose start or stop does not return. Its code is ended as far as possible.

        Thread-safe.
        """
        with log_context(self.config.name):
            self._connector.abandon()

    def plugin_samples(self) -> list[PluginSample]:
        """Return the values of the connector's own metrics."""
        return self._plugin_metrics.samples()

    def task_configs(self) -> list[dict[str, str]]:
        """Return a configuration for each task, with its `task.class`.

        Placeholders from the connector's configuration are kept. A connector may set `task.class` itself, because Java
        workers use another name. Raises ConfigError if there are more tasks than `tasks.max`, unless
        `tasks.max.enforce` is false (KIP-1004), and raises the errors of the connector.
        """
        most = self.config.tasks_max
        with log_context(self.config.name):
            configs = self._connector.task_configs(most)
        if len(configs) > most:
            self._too_many(
                f"The connector {self.config.name} has generated {len(configs)} tasks, which is greater than {most}, "
                "its tasks.max"
            )
        task_class = describe(self._connector.task_class())
        # Task configurations are stored, so they must not contain values from config providers.
        return [{"task.class": task_class, **self.config.transformed.restored(config)} for config in configs]

    def _too_many(self, what: str) -> None:
        if self.config.tasks_max_enforce:
            raise ConfigError(
                f"{what}: raise tasks.max, fix the connector's task_configs, or set tasks.max.enforce=false",
                name="tasks.max",
            )
        _log.warning("%s. They run nevertheless, because its tasks.max.enforce is false", what)

    # The connector's context.

    @property
    def offset_reader(self) -> OffsetReader:
        """Reads this connector's committed offsets."""
        return self._offset_reader

    @property
    def plugin_metrics(self) -> WorkerPluginMetrics:
        """Adds the connector's own metrics."""
        return self._plugin_metrics

    def configs(self) -> Mapping[str, str]:
        """Return the connector's configuration."""
        return MappingProxyType(dict(self.config.properties))

    def request_task_reconfiguration(self) -> None:
        """Request another call of `task_configs`."""
        self._listener.on_task_reconfiguration(self.config.name)

    def raise_error(self, error: Exception) -> None:
        """Make the connector FAILED because of an error in its own thread."""
        what = f"raise_error() of the context of connector {self.config.name}"
        if isinstance(error, BaseException):
            failure = as_failure(what, error)
        else:
            failure = PluginError(f"{what} was given {kind_of(error)}: give it an exception that says what is wrong")
        self._fail_if_running(failure)

    def _fail_if_running(self, error: Exception) -> None:
        with self._reporting:
            if self._early is not None:
                self._early.append(error)
                return
        with self._lock, log_context(self.config.name):
            if self._started and self._state is State.RUNNING:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        _log.error("Connector %s failed: %s", self.config.name, describe_error(error), exc_info=error)
        self._set_state(State.FAILED, error)

    def _stop_connector(self) -> None:
        # The lock is not held here, because the connector may wait for its own thread, which may be reporting a
        # failure.
        try:
            self._connector.stop()
        except Exception:  # noqa: BLE001 - a connector may raise anything; it is stopped as far as the worker goes
            _log.exception("stop() of connector %s failed", self.config.name)
        self._plugin_metrics = self._new_plugin_metrics()

    def _new_plugin_metrics(self) -> WorkerPluginMetrics:
        return WorkerPluginMetrics(f"connector {self.config.name}", self._kinds)

    def _set_state(self, state: State, error: Exception | None = None) -> None:
        check_transition(f"Connector {self.config.name}", self._state, state)
        self._state, self._error = state, error
        self._watch_partitions()
        if error is None:
            _log.info("Connector %s is %s", self.config.name, state)
        self._listener.on_connector_state(self.config.name, state, error)

    def _watch_partitions(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._new_watch is not None and self._state is State.RUNNING:
            self._watch = self._new_watch(self._fail_if_running)
