"""Brings the task configurations that connectors make into the config topic, by way of the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fencepost.api.errors import ConfigError
from fencepost.config.log_context import log_context
from fencepost.kafka.deadline import Backoff
from fencepost.worker.connector_work import ConnectorWork
from fencepost.worker.errors import RequestTargetError
from fencepost.worker.group_parts import GroupParts
from fencepost.worker.leadership import Leadership

_log: Final = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 250
_LONGEST_PAUSE_MS: Final = 60_000


class TaskConfigs:
    """Asks connectors of this worker for their task configurations, and hands these to the leader."""

    def __init__(self, parts: GroupParts, leadership: Leadership, find: Callable[[str], ConnectorWork | None]) -> None:
        """`find` returns a connector that this worker runs."""
        self._parts = parts
        self._leadership = leadership
        self._find = find
        self._asked: set[str] = set()
        self._busy: dict[str, asyncio.Task[None]] = {}

    def request(self, connector: str) -> None:
        """Ask a connector soon; once for all requests that come before that."""
        self._asked.add(connector)
        if connector not in self._busy:
            task = self._busy[connector] = asyncio.ensure_future(self._follow(connector))
            task.add_done_callback(lambda _: self._busy.pop(connector, None))

    async def store(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write task configurations as the leader, unless they are stored already.

        Raises NotLeaderError, ServiceUnavailableError or RequestFailedError.
        """
        await self._leadership.require()
        state = self._parts.state
        if self._is_stored(connector, configs) or not state.contains(connector):
            return
        await self._leadership.write(lambda: self._parts.configs.put_task_configs(connector, configs))

    def close(self) -> None:
        """Stop asking."""
        for task in self._busy.values():
            task.cancel()

    async def _follow(self, connector: str) -> None:
        with log_context(connector):
            await self._ask_while_asked(connector)

    async def _ask_while_asked(self, connector: str) -> None:
        backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        while connector in self._asked:
            self._asked.discard(connector)
            try:
                await self._configure(connector)
            except ConfigError as error:
                work = self._find(connector)
                if work is not None:
                    work.fail(error)
            except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; it is asked again
                pause = backoff.next_s()
                _log.warning("Connector %s gets its tasks in %.1f s, for now: %s", connector, pause, error)
                self._asked.add(connector)
                await asyncio.sleep(pause)

    async def _configure(self, connector: str) -> None:
        work = self._find(connector)
        running = None if work is None else work.running
        if running is None:
            return
        configs = await self._parts.run(running.task_configs)
        if self._is_stored(connector, configs):
            return
        try:
            await self.store(connector, configs)
        except RequestTargetError as elsewhere:
            if elsewhere.forward_url is None:
                raise
            await self._parts.client.put_task_configs(
                elsewhere.forward_url, connector, configs, self._leadership.signer
            )

    def _is_stored(self, connector: str, configs: Sequence[Mapping[str, str]]) -> bool:
        state = self._parts.state
        stored = [dict(config) for config in state.task_configs(connector)]
        entry = state.entry(connector)
        # Converters and transforms are the connector's: tasks of another configuration must be started anew as well.
        return bool(stored) and entry.applied_config == entry.config and stored == [dict(config) for config in configs]
