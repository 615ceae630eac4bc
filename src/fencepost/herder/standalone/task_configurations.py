"""Asks connectors of a standalone worker for their task configurations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fencepost.api.errors import describe_error
from fencepost.config.log_context import log_context
from fencepost.herder.standalone.standalone_parts import StandaloneParts
from fencepost.herder.work.connector_work import ConnectorWork
from fencepost.storage.configs.codec import TargetState

_log: Final = logging.getLogger(__name__)


class TaskConfigurations:
    """Stores the connectors' task configurations. Only for the event loop."""

    def __init__(self, parts: StandaloneParts, find: Callable[[str], ConnectorWork | None]) -> None:
        """`find` returns a running connector."""
        self._parts = parts
        self._find = find
        self._asked: set[str] = set()
        self._busy: dict[str, asyncio.Task[None]] = {}

    def request(self, connector: str) -> None:
        """Ask a connector soon; requests until then are merged."""
        self._asked.add(connector)
        if connector not in self._busy:
            task = self._busy[connector] = asyncio.ensure_future(self._follow(connector))
            task.add_done_callback(lambda _: self._finished(connector))

    def is_asked(self, connector: str) -> bool:
        """Whether the connector has yet to answer."""
        return connector in self._busy

    def close(self) -> None:
        """Stop asking."""
        for task in self._busy.values():
            task.cancel()

    def _finished(self, connector: str) -> None:
        self._busy.pop(connector, None)
        self._parts.changed.set()

    async def _follow(self, connector: str) -> None:
        with log_context(connector):
            while connector in self._asked:
                self._asked.discard(connector)
                await self._configure(connector)

    async def _configure(self, connector: str) -> None:
        work = self._find(connector)
        if work is None:
            return
        try:
            configs = await work.task_configs()
        except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; the others run on
            has = "keeps its tasks" if self._parts.state.tasks(connector) else "has no tasks"
            _log.error("Connector %s %s: %s", connector, has, describe_error(error), exc_info=error)
            work.refuse_tasks(error)
            return
        if configs is None:
            return
        work.take_tasks()
        # It may have been stopped meanwhile.
        if self._parts.state.target_state(connector) is TargetState.STOPPED:
            return
        if not self._parts.state.has_tasks(connector, configs):
            self._parts.configs.put_task_configs(connector, configs)
            _log.info("Connector %s runs with %d task(s)", connector, len(configs))
