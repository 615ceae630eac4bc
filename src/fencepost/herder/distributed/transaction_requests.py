"""The transactions of a connector's tasks, collected from the workers that run them.

Only the worker that runs a task knows its open transaction: the worker that gets the request asks the others.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from urllib.parse import urlsplit

from fencepost.api.errors import FencepostError
from fencepost.herder.core.transaction_info import TaskTransactionInfo
from fencepost.herder.distributed.group_view import GroupView
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.interface import Transactions
from fencepost.herder.peers.rest_client import RestClient, Signer
from fencepost.herder.requests.connector_states import ConnectorStates
from fencepost.herder.requests.local_transactions import local_transactions, merge
from fencepost.herder.work.local_work import LocalWork
from fencepost.herder.work.parts import HerderParts

_log: Final = logging.getLogger(__name__)

_ASKING_SECONDS: Final = 10.0
"""The time-out for another worker's answer. A hanging worker must not hide the answers of others."""


class GroupTransactions(Transactions):
    """Answers requests about the transactions of tasks."""

    def __init__(
        self,
        parts: HerderParts,
        view: GroupView,
        leadership: Leadership,
        *,
        work: LocalWork,
        states: ConnectorStates,
        client: RestClient,
    ) -> None:
        self._parts = parts
        self._view = view
        self._client = client
        self._leadership = leadership
        self._work = work
        self._states = states

    def here(self, connector: str) -> list[TaskTransactionInfo]:
        """Return the transactions of the tasks that run on this worker."""
        return local_transactions(self._parts, self._work, connector)

    async def everywhere(self, name: str, authorization: str | None) -> list[TaskTransactionInfo]:
        """Return the transactions of all tasks of a connector, by number.

        Raises NotFoundError for an unknown connector.

        `authorization` has the user's credentials, which other workers require as well.
        """
        await self._parts.started()
        self._states.config(name)
        tasks = self._parts.state.tasks(name)
        reported = self._parts.statuses.table.tasks(name)
        owners = {task: reported[task].worker_id if task in reported else "" for task in tasks}
        workers = sorted({*owners.values()} - {self._parts.worker_id, ""})
        signer = self._leadership.signer
        # Workers are identified by host and port; all workers of a group use the same scheme.
        scheme = urlsplit(self._view.url).scheme
        answers = await asyncio.gather(
            *(
                ask(self._client, f"{scheme}://{worker}", name, signer, authorization, seconds=_ASKING_SECONDS)
                for worker in workers
            )
        )
        known = {self._parts.worker_id: self.here(name), **dict(zip(workers, answers, strict=True))}
        return merge(owners, known, self._parts.config.group_id)


async def ask(
    client: RestClient, url: str, connector: str, signer: Signer | None, authorization: str | None, *, seconds: float
) -> list[TaskTransactionInfo] | str:
    """Return a worker's transactions of a connector's tasks, or a text that says why they are unknown."""
    try:
        async with asyncio.timeout(seconds):
            bodies = await client.task_transactions(url, connector, signer, authorization)
        return [TaskTransactionInfo.from_json(body) for body in bodies]
    except TimeoutError:
        return f"The worker at {url} did not answer within {seconds:g} s"
    except (FencepostError, TypeError) as error:
        _log.debug("The worker at %s does not report its transactions", url, exc_info=error)
        return f"The worker at {url} does not report its transactions: {error}"
