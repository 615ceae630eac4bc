"""The transactions of a connector's tasks, gathered from the workers that run them (KIP-618: who holds what open?).

Only the worker that runs a task knows what the task has open: the one that is asked asks the others for theirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from fencepost.api.errors import FencepostError
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.task_transactions import TaskCommit, TaskTransactionInfo
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.group_work import GroupWork
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.distributed.snapshots import Snapshots
from fencepost.herder.peers.rest_client import RestClient, Signer
from fencepost.runtime.task.source_task import TransactionStatus

_log: Final = logging.getLogger(__name__)

_ASKING_SECONDS: Final = 10.0
"""How long another worker may take to answer. One that hangs is not to hide what the others have."""


class TransactionRequests:
    """Answers requests about the transactions of tasks."""

    def __init__(self, parts: GroupParts, leadership: Leadership, work: GroupWork, snapshots: Snapshots) -> None:
        self._parts = parts
        self._leadership = leadership
        self._work = work
        self._snapshots = snapshots

    def here(self, connector: str) -> list[TaskTransactionInfo]:
        """Return those of the tasks that run on this worker."""
        found = self._work.transactions(connector)
        return [self._shown(task, status) for task, status in sorted(found.items())]

    async def everywhere(self, connector: str, authorization: str | None) -> list[TaskTransactionInfo]:
        """Return those of all tasks of a connector, by number. Raises NotFoundError if there is no such connector.

        `authorization` is what the user showed, which other workers ask for as well.
        """
        self._snapshots.config(connector)
        tasks = self._parts.state.tasks(connector)
        reported = self._parts.statuses.table.tasks(connector)
        owners = {task: reported[task].worker_id if task in reported else "" for task in tasks}
        workers = sorted({*owners.values()} - {self._parts.worker_id, ""})
        client, signer = self._parts.client, self._leadership.signer
        # Workers are known by host and port; those of a group listen alike.
        scheme = urlsplit(self._parts.url).scheme
        answers = await asyncio.gather(
            *(
                ask(client, f"{scheme}://{worker}", connector, signer, authorization, seconds=_ASKING_SECONDS)
                for worker in workers
            )
        )
        known = {self._parts.worker_id: self.here(connector), **dict(zip(workers, answers, strict=True))}
        return merge(owners, known, self._transactional_id)

    def _shown(self, task: ConnectorTaskId, status: TransactionStatus) -> TaskTransactionInfo:
        commit, opened = status.last_commit, status.open
        offsets = [] if commit is None else [{"partition": p and dict(p), "offset": o} for p, o in commit.offsets]
        return TaskTransactionInfo(
            task.task,
            self._parts.worker_id,
            self._transactional_id(task),
            status.state,
            status.producer_id,
            status.producer_epoch,
            None if opened is None else opened.since_ms,
            0 if opened is None else opened.records,
            0 if opened is None else opened.bytes,
            None if commit is None else TaskCommit(commit.at_ms, commit.records, offsets),
        )

    def _transactional_id(self, task: ConnectorTaskId) -> str:
        return task.transactional_id(self._parts.config.group_id)


async def ask(
    client: RestClient, url: str, connector: str, signer: Signer | None, authorization: str | None, *, seconds: float
) -> list[TaskTransactionInfo] | str:
    """Return what a worker has of a connector's tasks, or why that is not known."""
    try:
        async with asyncio.timeout(seconds):
            bodies = await client.task_transactions(url, connector, signer, authorization)
        return [TaskTransactionInfo.from_json(body) for body in bodies]
    except TimeoutError:
        return f"The worker at {url} did not answer within {seconds:g} s"
    except (FencepostError, TypeError) as error:
        _log.debug("The worker at %s does not tell its transactions", url, exc_info=error)
        return f"The worker at {url} does not tell: {error}"


def merge(
    owners: Mapping[ConnectorTaskId, str],
    answers: Mapping[str, list[TaskTransactionInfo] | str],
    transactional_id: Callable[[ConnectorTaskId], str],
) -> list[TaskTransactionInfo]:
    """Return what is known of each task, in the order of `owners`, which are the workers that statuses name.

    A task that moved since its last status is taken from whichever worker has it.
    """
    lists = [answer for answer in answers.values() if not isinstance(answer, str)]
    found = {transaction.id: transaction for some in lists for transaction in some}
    merged = []
    for task, owner in owners.items():
        answer = answers.get(owner)
        error = answer if isinstance(answer, str) else "The task does not run: its status says why"
        missing = TaskTransactionInfo(task.task, owner, transactional_id(task), error=error)
        merged.append(found.get(task.task, missing))
    return merged
