"""The transactions of a connector's tasks, gathered from the workers that run them (KIP-618: who holds what open?).

Only the worker that runs a task knows what the task has open: the one that is asked asks the others for theirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from fencepost.api.errors import FencepostError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.source_task import TransactionStatus
from fencepost.worker.group_parts import GroupParts
from fencepost.worker.group_work import GroupWork
from fencepost.worker.leadership import Leadership
from fencepost.worker.snapshots import Snapshots
from fencepost.worker.task_transactions import TaskCommit, TaskTransaction

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

    def here(self, connector: str) -> list[TaskTransaction]:
        """Return those of the tasks that run on this worker."""
        found = self._work.transactions(connector)
        return [self._shown(task, status) for task, status in sorted(found.items())]

    async def everywhere(self, connector: str) -> list[TaskTransaction]:
        """Return those of all tasks of a connector, by number. Raises NotFoundError if there is no such connector."""
        self._snapshots.config(connector)
        tasks = self._parts.state.tasks(connector)
        reported = self._parts.statuses.table.tasks(connector)
        owners = {task: reported[task].worker_id for task in tasks if task in reported}
        workers = sorted({*owners.values()} - {self._parts.worker_id})
        answers = await asyncio.gather(*(self._ask(worker, connector) for worker in workers))
        errors = {worker: answer for worker, answer in zip(workers, answers, strict=True) if isinstance(answer, str)}
        lists = [self.here(connector), *(answer for answer in answers if not isinstance(answer, str))]
        found = {transaction.id: transaction for some in lists for transaction in some}
        return [found.get(task.task) or self._missing(task, owners.get(task, ""), errors) for task in tasks]

    async def _ask(self, worker_id: str, connector: str) -> list[TaskTransaction] | str:
        """Return what a worker has, or why that is not known."""
        # Workers are known by host and port; those of a group listen alike.
        url = f"{urlsplit(self._parts.url).scheme}://{worker_id}"
        try:
            async with asyncio.timeout(_ASKING_SECONDS):
                bodies = await self._parts.client.task_transactions(url, connector, self._leadership.signer)
            return [TaskTransaction.from_json(body) for body in bodies]
        except TimeoutError:
            return f"Worker {worker_id} did not answer within {_ASKING_SECONDS:.0f} s"
        except (FencepostError, TypeError) as error:
            _log.debug("Worker %s does not tell its transactions", worker_id, exc_info=error)
            return f"Worker {worker_id} does not tell: {error}"

    def _shown(self, task: ConnectorTaskId, status: TransactionStatus) -> TaskTransaction:
        commit, opened = status.last_commit, status.open
        offsets = [] if commit is None else [{"partition": dict(p), "offset": o} for p, o in commit.offsets]
        return TaskTransaction(
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

    def _missing(self, task: ConnectorTaskId, owner: str, errors: Mapping[str, str]) -> TaskTransaction:
        error = errors.get(owner, "The task does not run: its status says why")
        return TaskTransaction(task.task, owner, self._transactional_id(task), error=error)

    def _transactional_id(self, task: ConnectorTaskId) -> str:
        return task.transactional_id(self._parts.config.group_id)
