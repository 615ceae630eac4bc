"""Collects the data of a group for the page at /ui: the worker that gets the request asks the others for their tasks.

The requests are those that the page itself may send, with its user's credentials.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from urllib.parse import quote, urlsplit

from fencepost.api.errors import FencepostError
from fencepost.api.foreign_json import parse_json
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
"""A hanging worker must not hide the others for long."""


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

    def _workers(self, connectors: list[str]) -> set[str]:
        """The other workers that run tasks of connectors, by the statuses."""
        table = self._parts.statuses.table
        owners = {status.worker_id for name in connectors for status in table.tasks(name).values()}
        return owners - {self._parts.worker_id, ""}

    def _members(self) -> set[str]:
        """The other members of the group, as reported by its leader, unless that is a worker of Kafka Connect."""
        return {urlsplit(url).netloc for url in self._view.members} - {self._parts.worker_id}

    async def _ask_all(self, workers: set[str], path: str, authorization: str | None) -> dict[str, Json | str]:
        answers = await asyncio.gather(*(self._ask(worker, path, authorization) for worker in workers))
        return dict(zip(workers, answers, strict=True))

    async def _ask(self, worker: str, path: str, authorization: str | None) -> Json | str:
        """Return the tasks of another worker and its description, or why they are unknown."""
        url = f"{urlsplit(self._view.url).scheme}://{worker}{path}"
        headers = {"Accept": "application/json"} | ({} if authorization is None else {"Authorization": authorization})
        try:
            async with asyncio.timeout(_ASKING_SECONDS):
                response = await self._client.request("GET", url, headers=headers)
            answer = parse_json(response.body) if response.status == 200 else {"tasks": None}
            tasks = answer["tasks"]
        except TimeoutError:
            return f"It did not answer within {_ASKING_SECONDS:g} s"
        except (FencepostError, ValueError, KeyError, TypeError) as error:
            _log.debug("The worker at %s does not report its tasks", worker, exc_info=error)
            return str(error)
        # A worker of Kafka Connect has no page.
        return answer if isinstance(tasks, list) else f"It answered with status {response.status}"
