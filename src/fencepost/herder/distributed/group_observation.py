"""Collects the data of a group for the page at /ui: the worker that gets the request asks the others for their tasks.

The worker sends these requests with the credentials of the page's user, so they show nothing that the page could not
request itself.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any, Final
from urllib.parse import quote, urlsplit

from fencepost.api.errors import FencepostError
from fencepost.api.foreign_json import parse_json
from fencepost.herder.core.history import HistoryPoint, added_up
from fencepost.herder.core.observation import Json, Overview
from fencepost.herder.distributed.group_view import GroupView
from fencepost.herder.peers.rest_client import RestClient
from fencepost.herder.requests.connector_states import ConnectorStates
from fencepost.herder.requests.observing import LocalObservation
from fencepost.herder.work.parts import HerderParts

_log: Final = logging.getLogger(__name__)

HERE: Final = "/ui/api/here"
"""The path where a worker answers with its own tasks."""

_ASKING_SECONDS: Final = 5.0
"""The time-out for another worker's answer. A hanging worker must not hide the others for long."""


class GroupObservation(LocalObservation):
    """Adds the tasks of the group's other workers."""

    def __init__(self, parts: HerderParts, view: GroupView, states: ConnectorStates, client: RestClient) -> None:
        super().__init__(parts, states)
        self._view = view
        self._client = client

    async def overview(self, authorization: str | None) -> Overview:
        """Return all connectors, with the sums of their tasks on all workers."""
        await self._parts.started()
        workers = self._workers(self._parts.state.connectors()) | self._members()
        answers = await self._ask_all(workers, HERE, authorization)
        silent = {worker: answer for worker, answer in answers.items() if isinstance(answer, str)}
        known = {worker: answer for worker, answer in answers.items() if not isinstance(answer, str)}
        own: Json = {"tasks": self.here(), "worker": self.worker()}
        return self._overview({self._parts.worker_id: own, **known}, silent)

    async def activity(self, connector: str, authorization: str | None) -> list[Json]:
        """Return the activity of a connector's tasks, on all workers. Raises NotFoundError."""
        here = await super().activity(connector, authorization)
        path = f"{HERE}?connector={quote(connector, safe='')}"
        answers = await self._ask_all(self._workers([connector]), path, authorization)
        others = [task for answer in answers.values() if not isinstance(answer, str) for task in answer["tasks"]]
        return sorted([*here, *others], key=lambda task: int(task["task"]))

    async def history(self, connector: str, authorization: str | None) -> list[HistoryPoint]:
        """Return the figures of the last hour of a connector, on all workers. Raises NotFoundError."""
        here = await super().history(connector, authorization)
        found = await self._of_all(connector, "history", authorization)
        return added_up([here, *([HistoryPoint(*point) for point in points] for points in found)])

    async def logs(self, connector: str, authorization: str | None) -> list[Json]:
        """Return the last log lines of all workers about a connector, the oldest first. Raises NotFoundError."""
        here = await super().logs(connector, authorization)
        found = await self._of_all(connector, "logs", authorization)
        return sorted([*here, *itertools.chain(*found)], key=lambda line: int(line["at"]))

    async def _of_all(self, connector: str, part: str, authorization: str | None) -> list[list[Any]]:
        """Return other workers' data about a connector.

        The workers that run its tasks are asked, and all members of the group, because they may have run its tasks.
        """
        path = f"{HERE}/{part}?connector={quote(connector, safe='')}"
        answers = await self._ask_all(self._workers([connector]) | self._members(), path, authorization, part)
        return [answer[part] for answer in answers.values() if not isinstance(answer, str)]

    def _workers(self, connectors: list[str]) -> set[str]:
        """Return the other workers that run tasks of connectors, according to the statuses."""
        table = self._parts.statuses.table
        owners = {status.worker_id for name in connectors for status in table.tasks(name).values()}
        return owners - {self._parts.worker_id, ""}

    def _members(self) -> set[str]:
        """Return the other members of the group, as its leader reported them.

        A leader of Kafka Connect reports none.
        """
        return {urlsplit(url).netloc for url in self._view.members} - {self._parts.worker_id}

    async def _ask_all(
        self, workers: set[str], path: str, authorization: str | None, part: str = "tasks"
    ) -> dict[str, Json | str]:
        answers = await asyncio.gather(*(self._ask(worker, path, authorization, part) for worker in workers))
        return dict(zip(workers, answers, strict=True))

    async def _ask(self, worker: str, path: str, authorization: str | None, part: str) -> Json | str:
        """Return another worker's answer, a dict with a list under `part`.

        Without such an answer, return the reason as text.
        """
        url = f"{urlsplit(self._view.url).scheme}://{worker}{path}"
        headers = {"Accept": "application/json"} | ({} if authorization is None else {"Authorization": authorization})
        try:
            async with asyncio.timeout(_ASKING_SECONDS):
                response = await self._client.request("GET", url, headers=headers)
            answer = parse_json(response.body) if response.status == 200 else {part: None}
            listed = answer[part]
        except TimeoutError:
            return f"It did not answer within {_ASKING_SECONDS:g} s"
        except (FencepostError, ValueError, KeyError, TypeError) as error:
            _log.debug("The worker at %s does not report its %s", worker, part, exc_info=error)
            return str(error)
        # A worker of Kafka Connect does not serve this path, and answers with status 404.
        return answer if isinstance(listed, list) else f"It answered with status {response.status}"
