"""What a worker tells of a task's transactions, between the layers and between workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """A task's last commit since it started: when, in milliseconds since the epoch, and the offsets that it led up to.

    `offsets` are objects of `partition` and `offset`, None for an offset that was removed.
    """

    at: int
    records: int
    offsets: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TaskTransactionInfo:
    """A task's transactional id, and what it has open: since when, in milliseconds since the epoch, and how much.

    `state` is that of its producer: UNINITIALIZED, READY, IN_TRANSACTION, COMMITTING, ABORTING, FENCED, FAILED or
    CLOSED. It is None, and so is everything behind it, where no worker runs the task; `error` says so, or why the
    worker that does cannot be asked.
    """

    id: int
    worker_id: str
    transactional_id: str
    state: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    open_since: int | None = None
    records: int | None = None
    bytes: int | None = None
    last_commit: TaskCommit | None = None
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as the REST API shows it."""
        body = asdict(self)
        if self.error is None:
            del body["error"]
        return body

    @classmethod
    def from_json(cls, body: Any) -> Self:
        """Return what another worker showed. Raises TypeError for anything else."""
        if not isinstance(body, Mapping):
            raise TypeError(f"{body!r} is not a task's transaction")
        commit = body.get("last_commit")
        return cls(**{**body, "last_commit": None if commit is None else TaskCommit(**commit)})
