"""Information about a task's transactions, for the layers and for other workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """A task's last commit since it started: its time in milliseconds since the epoch, and the committed offsets.

    `offsets` are objects of `partition` and `offset`, None for an offset that was removed.
    """

    at: int
    records: int
    offsets: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TaskTransactionInfo:
    """A task's transactional id, and its open transaction: its start in milliseconds since the epoch, and its size.

    `state` is that of its producer: UNINITIALIZED, READY, IN_TRANSACTION, COMMITTING, ABORTING, FENCED, FAILED or
    CLOSED. It is None, as is every later field, if no worker runs the task or the worker cannot be asked; `error` is
    the reason.
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
        """Return its JSON in the REST API."""
        body = asdict(self)
        if self.error is None:
            del body["error"]
        return body

    @classmethod
    def from_json(cls, body: Any) -> Self:
        """Parse the JSON of another worker. Raises TypeError for anything else."""
        if not isinstance(body, Mapping):
            raise TypeError(f"{body!r} is not a task's transaction")
        commit = body.get("last_commit")
        return cls(**{**body, "last_commit": None if commit is None else TaskCommit(**commit)})
