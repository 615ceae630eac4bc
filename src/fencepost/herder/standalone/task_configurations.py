"""Asks connectors of a standalone worker for their task configurations."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from fencepost.api.errors import describe_error
from fencepost.herder.standalone.standalone_parts import StandaloneParts
from fencepost.herder.work.connector_work import ConnectorWork
from fencepost.herder.work.merged_requests import MergedRequests
from fencepost.runtime.restart_policy import is_worth_a_restart
from fencepost.storage.configs.codec import TargetState

_log: Final = logging.getLogger(__name__)


class TaskConfigurations(MergedRequests):
    """Stores the connectors' task configurations. Only for the event loop."""

    def __init__(self, parts: StandaloneParts, find: Callable[[str], ConnectorWork | None]) -> None:
        """`find` returns a connector that runs here."""
        super().__init__()
        self._parts = parts
        self._find = find

    async def _handle(self, connector: str) -> None:
        await self._configure(connector)
        self._parts.changed.set()

    async def _configure(self, connector: str) -> None:
        work = self._find(connector)
        if work is None:
            return
        try:
            configs = await work.task_configs()
        except Exception as error:  # noqa: BLE001 - a connector's code may raise anything; the others run on
            if self._parts.state.target_state(connector) is not TargetState.STARTED:
                # It was paused or stopped during the call. When it is resumed, it is asked again.
                return
            has = "keeps its tasks" if self._parts.state.tasks(connector) else "has no tasks"
            _log.error("Connector %s %s: %s", connector, has, describe_error(error), exc_info=error)
            if is_worth_a_restart(error):
                # The JVM of a Java connector may end during the call, and its connector reports that only later.
                work.fail(error)
            else:
                work.report_invalid_task_configs(error)
            return
        if configs is None:
            return
        work.clear_invalid_task_configs()
        # The connector may have been stopped meanwhile.
        if self._parts.state.target_state(connector) is TargetState.STOPPED:
            return
        if not self._parts.state.has_tasks(connector, configs):
            self._parts.configs.put_task_configs(connector, configs)
            _log.info("Connector %s runs with %d task(s)", connector, len(configs))
