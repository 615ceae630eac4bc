"""A connector that runs in this process. Its tasks may run on any worker of a group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from fencepost.api.errors import ConfigError, FencepostError, describe_error
from fencepost.config.file_descriptors import explained
from fencepost.herder.core.convergence import Converging
from fencepost.herder.work.parts import HerderParts
from fencepost.runtime.connector.source_connector import WorkerConnector
from fencepost.runtime.restart_policy import LONGEST_DELAY_S, RestartPolicy
from fencepost.runtime.state import State
from fencepost.runtime.worker import connector_version
from fencepost.storage.configs.codec import Config, TargetState

P = ParamSpec("P")
T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectorPlan:
    """The plan of a connector. Unless only `target` changes, a new plan requires a new start.

    `version` counts the written configurations; `restart` counts the requested restarts.
    """

    version: int
    target: TargetState
    restart: int


class _GivenUpError(FencepostError):
    """A connector's code, or a request to brokers, did not return in time, and the connector has a new plan."""


class ConnectorWork(Converging[ConnectorPlan]):
    """Starts, pauses and stops one connector by its plan, and reports its states.

    A connector's code that never returns does not block anything else: once the connector has a new plan, the call is
    abandoned after another `task.shutdown.graceful.timeout.ms`.

    `configure_tasks` is called with the connector's name whenever the connector should be asked for its task
    configurations.
    """

    def __init__(
        self, name: str, parts: HerderParts, configure_tasks: Callable[[str], None], restart: Callable[[str], None]
    ) -> None:
        """`restart` is called with the connector's name when the connector needs a new plan to restart."""
        super().__init__(name)
        self.name = name
        self.announce_restart = False
        """Whether the next restart is reported as RESTARTING."""
        self._parts = parts
        self._configure_tasks = configure_tasks
        self._restart = restart
        self._restarts = RestartPolicy()
        self._start_due: asyncio.TimerHandle | None = None
        # True from a failure to the next start. Meanwhile the connector is reported as RESTARTING, with the reason.
        self._restarting = False
        self._starting = False
        self._task_configs_invalid = False
        self._connector: WorkerConnector | None = None
        self._version: str | None = None
        # The number of the current instance. Late reports of earlier instances are ignored.
        self._run = 0
        self._left: asyncio.Future[None] = parts.loop.create_future()
        self._doing: ConnectorPlan | None = None
        self._changed = asyncio.Event()

    @property
    def running(self) -> WorkerConnector | None:
        """The connector, if it runs and can generate task configurations."""
        connector = self._connector
        return connector if connector is not None and connector.state is State.RUNNING else None

    async def task_configs(self) -> list[dict[str, str]] | None:
        """Request the connector's task configurations.

        Return None if it does not run, or is stopped before it answers.
        """
        running = self.running
        if running is None:
            return None
        answer = asyncio.ensure_future(self._parts.run(running.task_configs))
        answer.add_done_callback(lambda late: late.cancelled() or late.exception())
        left = self._left
        either: list[asyncio.Future[Any]] = [answer, left]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return None if left.done() else answer.result()

    def want(self, plan: ConnectorPlan | None) -> None:
        """Set the plan. The connector follows it soon, even if it hangs."""
        super().want(plan)
        if plan != self._doing:
            self._changed.set()

    def report_invalid_task_configs(self, error: Exception) -> None:
        """Report FAILED because the connector's task configurations are invalid, although the connector itself runs.

        A connector that restarts stays RESTARTING: it is asked again after its restart.
        """
        if self._restarting:
            return
        self._task_configs_invalid = True
        self._report(State.FAILED, error)

    def fail(self, error: Exception) -> None:
        """Report that the running connector failed, and restart it if the failure is retriable."""
        # One failure may be reported twice: by the call that it interrupts, and by the connector itself.
        if self._restarting:
            return
        self._failed(error)
        # Without a restart, a connector that runs on may still give its tasks later.
        self._task_configs_invalid = not self._restarting and self.running is not None

    def clear_invalid_task_configs(self) -> None:
        """Clear the report of `report_invalid_task_configs`, if there was one."""
        if self._task_configs_invalid and self.running is not None:
            self._task_configs_invalid = False
            self._report(State.RUNNING)

    def forget_failures(self) -> None:
        """Reset the count of automatic restarts."""
        self._restarts = RestartPolicy()

    async def _step(self, before: ConnectorPlan | None, wanted: ConnectorPlan | None) -> ConnectorPlan | None:
        self._doing = wanted
        self._changed.clear()
        if wanted is None:
            await self._halt()
            if self._parts.state.contains(self.name):
                self._report(State.UNASSIGNED)
            return None
        if before is not None and replace(before, target=wanted.target) != wanted:
            if await self._halt() and not self._restarting:
                self._report(State.UNASSIGNED)
            if before.version != wanted.version:
                # Failures of an earlier configuration do not count for this one.
                self.forget_failures()
            self._announce_restart()
            return None
        async with self._parts.turn():
            if self.wanted == wanted:
                await self._move_to(wanted.target)
        return wanted

    async def _move_to(self, target: TargetState) -> None:
        try:
            match target:
                case TargetState.STARTED:
                    await self._start()
                case TargetState.PAUSED:
                    await self._pause()
                case TargetState.STOPPED:
                    await self._halt()
                    await self._find_version()
                    self._report(State.STOPPED)
        except _GivenUpError:
            _log.warning(
                "Connector %s is abandoned: it should start again, pause or stop, but an earlier call of its code has "
                "not returned in time. The code hangs, or brokers do not answer. The resources of the connector are "
                "released only when the call returns, or when this worker ends",
                self.name,
            )
        except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; it ends in the status
            _log.error("Connector %s failed: %s", self.name, describe_error(error), exc_info=error)
            self._failed(error)

    async def _start(self) -> None:
        self._starting = True
        try:
            if self._connector is not None and self._connector.state is State.PAUSED:
                await self._call(self._connector.start)
            else:
                await self._start_anew()
        finally:
            self._starting = False
        connector = self._connector
        if self.running is not None:
            self._restarting = False
            # Reset the count of restarts only after a while, because a connector may fail soon after each start.
            self._parts.loop.call_later(LONGEST_DELAY_S, self._lasted, self._run)
            self._configure_tasks(self.name)
        elif connector is not None and connector.error is not None:
            self._failed(connector.error)

    def _failed(self, error: Exception) -> None:
        """Report that the connector failed, and restart it if the failure is retriable."""
        error = explained(f"Connector {self.name}", error)
        delay = self._restarts.failed(error)
        self._restarting = delay is not None
        if delay is None:
            self._report(State.FAILED, error)
            return
        _log.warning("Connector %s failed and restarts in %.1f s: %s", self.name, delay, describe_error(error))
        self._parts.worker.metrics.connector_restarts(self.name)
        self._report(State.RESTARTING, error)
        self._start_due = self._parts.loop.call_later(delay, self._restart, self.name)

    def _lasted(self, run: int) -> None:
        if run == self._run and self.running is not None:
            self._restarts.progressed()

    async def _start_anew(self) -> None:
        await self._halt()
        config, metrics = self._config(), self._parts.worker.metrics
        try:
            self._connector = await self._call(self._make, config, self._run)
            await self._call(self._connector.start)
        except Exception:
            metrics.add_failed_connector(self.name, config)
            raise
        finally:
            metrics.connector_startups.record(self.running is not None)

    def _make(self, config: Config, run: int) -> WorkerConnector:
        properties = {name: value for name, value in config.items() if value is not None}
        worker = self._parts.worker_for(self.name)
        # The restart settings are read before the plugin's code runs, because they apply to its failures, too. If they
        # are invalid, `checked` raises the error, with all invalid properties.
        with suppress(ConfigError):
            self._restarts.config = worker.restarts(worker.connector_config(properties))
        self._version = connector_version(worker.config, properties)
        return worker.new_connector(worker.checked(properties, accepted=True), _ConnectorEvents(self, run))

    def _config(self) -> Config:
        config = self._parts.state.connector_config(self.name)
        if config is None:
            raise ConfigError(f"Connector {self.name} was deleted", name="name")
        return config

    async def _pause(self) -> None:
        if self._start_due is not None:
            await self._halt()
        if self._connector is not None:
            await self._call(self._connector.pause)
        else:
            await self._find_version()
            self._report(State.PAUSED)

    async def _find_version(self) -> None:
        if self._version is None:
            config = {name: value for name, value in self._config().items() if value is not None}
            self._version = await self._call(connector_version, self._parts.worker_for(self.name).config, config)

    async def _halt(self) -> bool:
        """Stop the connector, and return whether there was one. A connector that does not stop in time is abandoned."""
        connector = self._leave()
        if connector is None:
            self._parts.worker.metrics.remove_connector(self.name)
            return False
        stopping = asyncio.ensure_future(self._parts.run(self._parts.worker.stop_connector, connector))
        await asyncio.wait([stopping], timeout=self._patience_s)
        if not stopping.done():
            _log.warning("Connector %s does not stop in time: its resources are not released before it does", self.name)
            await self._parts.run(connector.abandon)
        return True

    def _leave(self) -> WorkerConnector | None:
        """Ignore further reports of the connector, and return it."""
        self._run += 1
        self._task_configs_invalid = False
        if self._start_due is not None:
            self._start_due.cancel()
            self._start_due = None
        self._left.set_result(None)
        self._left = self._parts.loop.create_future()
        connector, self._connector = self._connector, None
        return connector

    @property
    def _patience_s(self) -> float:
        return self._parts.config.task_shutdown_graceful_timeout_ms / 1000

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the connector's code. Raises _GivenUpError if the call does not return in time, and there is a new plan.

        The connector is abandoned then, before another instance may start.
        """
        call = asyncio.ensure_future(self._parts.run(function, *args, **kwargs))
        while not call.done():
            changed = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait([call, changed], return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            await asyncio.wait([call], timeout=self._patience_s)
            if call.done():
                # Do not clear the event: the next call must still notice the new plan.
                break
            if self.wanted != self._doing:
                connector = self._leave()
                call.add_done_callback(partial(self._stop_late, connector))
                if connector is not None:
                    await self._parts.run(connector.abandon)
                raise _GivenUpError
            self._changed.clear()
        return call.result()

    def _stop_late(self, connector: WorkerConnector | None, call: asyncio.Future[Any]) -> None:
        """Stop an abandoned connector whose call returned late."""
        if call.cancelled() or call.exception() is not None:
            return
        made = call.result()
        late = made if isinstance(made, WorkerConnector) else connector
        if late is not None:
            asyncio.ensure_future(self._parts.run(late.stop))  # noqa: RUF006 - nothing waits for it

    def _announce_restart(self) -> None:
        if self.announce_restart:
            self.announce_restart = False
            self._report(State.RESTARTING)

    def _report(self, state: State, error: Exception | None = None) -> None:
        self._parts.report(self.name, state, error=error, version=self._version)

    def state_reported(self, run: int, state: State, error: Exception | None) -> None:
        """Process a report of the connector's state."""
        if run != self._run or state is State.STOPPED:
            return
        if error is None:
            self._report(state)
        elif not self._starting:
            # `start` itself reports a failure of the start.
            self.fail(error)

    def asked(self, run: int) -> None:
        """Process the connector's request for a task reconfiguration."""
        if run == self._run:
            self._configure_tasks(self.name)

    def post(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function on the event loop, unless it is closed."""
        with suppress(RuntimeError):
            self._parts.loop.call_soon_threadsafe(function, *arguments)


class _ConnectorEvents:
    """Forwards the reports of one connector instance from any thread to the event loop."""

    def __init__(self, work: ConnectorWork, run: int) -> None:
        self._work = work
        self._run = run

    def on_connector_state(self, connector: str, state: State, error: Exception | None) -> None:
        """Forward the connector's state to the event loop."""
        del connector
        self._work.post(self._work.state_reported, self._run, state, error)

    def on_task_reconfiguration(self, connector: str) -> None:
        """Forward the connector's request for a task reconfiguration to the event loop."""
        del connector
        self._work.post(self._work.asked, self._run)
