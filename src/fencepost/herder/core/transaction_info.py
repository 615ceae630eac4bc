"""Information about a task's transactions, for the REST API and for other workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """A task's last commit since it started.

    `at` is in milliseconds since the epoch. `records` is the number of committed records.

    `offsets` are objects with `partition` and `offset`. `offset` is None if the offset was removed.
    """

    at: int
    records: int
    offsets: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TaskTransactionInfo:
    """A task's transactional id and open transaction.

    `open_since`, in milliseconds since the epoch, `records` and `bytes` describe the open transaction.

    `state` is the producer's: UNINITIALIZED, READY, IN_TRANSACTION, COMMITTING, ABORTING, FENCED, FAILED or CLOSED. If
    no worker runs the task, or its worker does not answer, `error` is the reason, and all other fields from `state` on
    are None.
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
        """Return the JSON for the REST API."""
        body = asdict(self)
        if self.error is None:
            del body["error"]
        return body

    @classmethod
    def from_json(cls, body: Any) -> Self:
        """Parse the JSON of another worker. Raises TypeError if it does not have this form."""
        if not isinstance(body, Mapping):
            raise TypeError(f"{body!r} is not a task's transaction")
        commit = body.get("last_commit")
        return cls(**{**body, "last_commit": None if commit is None else TaskCommit(**commit)})
