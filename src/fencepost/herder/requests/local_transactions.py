"""The open transactions of a connector's tasks on this worker, and the merging of several workers' answers."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.transaction_info import TaskCommit, TaskTransactionInfo
from fencepost.herder.work.local_work import LocalWork
from fencepost.herder.work.parts import HerderParts
from fencepost.runtime.task.source_task import TransactionStatus


def local_transactions(parts: HerderParts, work: LocalWork, connector: str) -> list[TaskTransactionInfo]:
    """Return the transactions of a connector's tasks on this worker, by number."""
    return [_shown(parts, task, status) for task, status in sorted(work.transactions(connector).items())]


def _shown(parts: HerderParts, task: ConnectorTaskId, status: TransactionStatus) -> TaskTransactionInfo:
    commit, opened = status.last_commit, status.open
    offsets = [] if commit is None else [{"partition": p and dict(p), "offset": o} for p, o in commit.offsets]
    return TaskTransactionInfo(
        task.task,
        parts.worker_id,
        task.transactional_id(parts.config.group_id),
        status.state,
        status.producer_id,
        status.producer_epoch,
        None if opened is None else opened.since_ms,
        0 if opened is None else opened.records,
        0 if opened is None else opened.bytes,
        None if commit is None else TaskCommit(commit.at_ms, commit.records, offsets),
    )


def merge(
    owners: Mapping[ConnectorTaskId, str],
    answers: Mapping[str, list[TaskTransactionInfo] | str],
    group_id: str,
) -> list[TaskTransactionInfo]:
    """Return the transactions of each task in `owners`, in that order, from the answers of several workers.

    `owners` are the workers that run the tasks according to the statuses. If a task has moved since its last status,
    the answer of the worker that runs it now is used. If no answer has the task, the result has an `error`.
    """
    lists = [answer for answer in answers.values() if not isinstance(answer, str)]
    found = {transaction.id: transaction for some in lists for transaction in some}
    merged = []
    for task, owner in owners.items():
        answer = answers.get(owner)
        error = answer if isinstance(answer, str) else "The task does not run: its status says why"
        missing = TaskTransactionInfo(task.task, owner, task.transactional_id(group_id), error=error)
        merged.append(found.get(task.task, missing))
    return merged
