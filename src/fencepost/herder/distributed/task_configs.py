"""Writes the task configurations of connectors to the config topic, through the leader.

A stopped connector has no task configurations. Apache's leaders write a stop as two records: a leader may die between
them, or write task configurations after them. So the tasks of a stopped connector are removed whenever they are found,
and a started connector without task configurations is asked for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Final

from fencepost.api.errors import ConfigError, FencepostError, PluginError, RetriableError, describe_error
from fencepost.api.traces import plugin_location
from fencepost.herder.distributed.config_topic import ConfigTopic
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.errors import BadRequestError, ForbiddenError, NotLeaderError, RequestTargetError
from fencepost.herder.peers.rest_client import RestClient
from fencepost.herder.work.local_work import LocalWork
from fencepost.herder.work.merged_requests import MergedRequests
from fencepost.kafka.deadline import Backoff
from fencepost.runtime.worker import Worker, partitions_follow_task_configs
from fencepost.storage.configs.codec import Config, TargetState

_log: Final = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 250
_LONGEST_PAUSE_MS: Final = 60_000
_EARLY_REFUSALS: Final = 2


class TaskConfigs(MergedRequests):
    """Requests task configurations from this worker's connectors, and sends them to the leader."""

    def __init__(
        self, worker: Worker, config_topic: ConfigTopic, leadership: Leadership, local: LocalWork, client: RestClient
    ) -> None:
        super().__init__()
        self._worker = worker
        self._topic = config_topic
        self._client = client
        self._leadership = leadership
        self._local = local
        # Pauses after failures. A new request ends the pause, because the cause may be gone: the brokers may be back.
        self._pauses: dict[str, asyncio.Event] = {}

    def request(self, connector: str) -> None:
        """Reconcile a connector's tasks soon. Requests that come until then are merged.

        A stopped connector loses its tasks, if this worker leads. Any other connector is asked for its task
        configurations, if it runs here.
        """
        super().request(connector)
        if connector in self._pauses:
            self._pauses[connector].set()

    async def store(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write task configurations as the leader, unless they are already stored, or obsolete.

        Raises NotLeaderError, ServiceUnavailableError or RequestFailedError.
        """
        await self._leadership.require()
        if self._topic.state.target_state(connector) is TargetState.STOPPED:
            # Any worker may write that a connector is resumed. The requesting worker may have read that record already,
            # and this worker not yet.
            await self._topic.read()
        # A stop may have been written after the connector was asked.
        await self._write(connector, configs, lambda: self._is_wanted(connector, configs))

    async def _take_away(self, connector: str) -> None:
        await self._leadership.require()
        await self._topic.read()
        await self._write(connector, [], lambda: self._is_stopped_with_tasks(connector))

    async def _write(self, connector: str, configs: Sequence[Mapping[str, str]], is_wanted: Callable[[], bool]) -> None:
        def check() -> None:
            if not is_wanted():
                raise _NotWantedError

        with suppress(_NotWantedError):
            await self._leadership.write(lambda: self._put(connector, configs), check=check)

    def _put(self, connector: str, configs: Sequence[Mapping[str, str]]) -> Future[None]:
        # This is called on a thread of the store, with the connector's configuration at that time.
        if self._leadership.all_enabled:
            return self._topic.store.put_task_configs(connector, configs, continues=self._continue)
        return self._topic.store.put_task_configs(connector, configs)

    def _continue(self, config: Config) -> bool:
        try:
            return partitions_follow_task_configs(self._worker.config, self._worker.connector_config(config))
        except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; all tasks restart
            _log.warning("All tasks are restarted, because their source partitions are unknown: %s", error)
            return False

    async def _handle(self, connector: str) -> None:
        backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        refusals = 0
        while True:
            try:
                await self._configure(connector)
            except (ConfigError, PluginError) as error:
                self._refuse(connector, error)
                return
            except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; it is asked again
                # Apache's leader refuses task configurations until it has read that the connector is resumed. A
                # retriable error of the connector often passes soon, too.
                refusals += isinstance(error, BadRequestError) or plugin_location(error) is not None
                if _is_shown(error) or refusals > _EARLY_REFUSALS:
                    # The connector's status is the only place where users see why its tasks are missing or outdated.
                    self._refuse(connector, error)
                pause = backoff.next_s()
                _log.warning(
                    "The tasks of connector %s are not updated; retrying in %.1f s: %s",
                    connector,
                    pause,
                    describe_error(error),
                )
                await self._pause(connector, pause)
                self._asked.discard(connector)
            else:
                return

    async def _pause(self, connector: str, seconds: float) -> None:
        self._pauses[connector] = asked = asyncio.Event()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(asked.wait(), seconds)
        finally:
            del self._pauses[connector]

    def _refuse(self, connector: str, error: Exception) -> None:
        work = self._local.find(connector)
        if work is not None:
            work.report_invalid_task_configs(error)

    async def _configure(self, connector: str) -> None:
        if self._topic.state.target_state(connector) is TargetState.STOPPED:
            with suppress(NotLeaderError):
                await self._take_away(connector)
            return
        work = self._local.find(connector)
        configs = None if work is None else await work.task_configs()
        if work is None or configs is None:
            return
        if not self._topic.state.has_tasks(connector, configs):
            await self._send(connector, configs)
        work.clear_invalid_task_configs()

    async def _send(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        try:
            await self.store(connector, configs)
        except RequestTargetError as elsewhere:
            if elsewhere.forward_url is None:
                raise
            put = self._client.put_task_configs
            await self._leadership.signed(partial(put, elsewhere.forward_url, connector, configs))

    def _is_wanted(self, connector: str, configs: Sequence[Mapping[str, str]]) -> bool:
        state = self._topic.state
        stopped = state.target_state(connector) is TargetState.STOPPED
        return not stopped and state.contains(connector) and not self._topic.state.has_tasks(connector, configs)

    def _is_stopped_with_tasks(self, connector: str) -> bool:
        state = self._topic.state
        return state.target_state(connector) is TargetState.STOPPED and bool(state.tasks(connector))


def _is_shown(error: Exception) -> bool:
    """Whether a user must fix the error: a plugin failed, or the leader refused this worker's signature."""
    by_plugin = plugin_location(error) is not None and not isinstance(error, RetriableError)
    return by_plugin or isinstance(error, ForbiddenError)


class _NotWantedError(FencepostError):
    """The task configurations must not be stored: they are stored already, or the connector is stopped or deleted."""
