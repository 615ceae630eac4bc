"""The interface between the page at /ui and the herder, and the rows that the page shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fencepost.herder.core.history import HistoryPoint

Json = dict[str, Any]

_SUMS: Final = ("records", "bytes", "rate", "skipped", "transactions", "aborted", "restarts", "open_records")
_MESSAGE_LENGTH: Final = 500
_MORE: Final = " ..."


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker of the group: how much runs on it, its version, and since when it runs, in milliseconds since 1970.

    Version and start are None for a worker that does not report them.
    """

    tasks: int
    connectors: int
    version: str | None = None
    started: int | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """A group at one moment. `rows` are connectors by name, `silent` workers that did not answer, with the reason."""

    worker_id: str
    group_id: str
    workers: Mapping[str, WorkerView]
    """All members of the group, and other workers that have something to run by the statuses."""
    rows: Mapping[str, Json]
    silent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HidingTransaction:
    """An open transaction that has records in a topic.

    `partitions` are the topic's partitions with its records. `connector` and `task` own its transactional id, None for
    a transaction of another program.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    since_ms: int
    timeout_ms: int
    partitions: Sequence[int]
    connector: str | None
    task: int | None


@dataclass(frozen=True, slots=True)
class TopicView:
    """How far read_committed consumers can read a topic: of each partition the last stable offset, and the end."""

    topic: str
    partitions: Mapping[int, tuple[int, int]]
    transactions: Sequence[HidingTransaction]


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record for people: key, value and headers are JSON as text, so that no reader rounds a number; None is a null.

    `timestamp` is in milliseconds since 1970. `cut` names which of `key`, `value` and `headers` are longer than shown.
    """

    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: Sequence[tuple[str, str | None]]
    cut: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SkippedRecords:
    """Offsets of a partition whose records are not shown, and the reason, for people."""

    partition: int
    first_offset: int
    last_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordsView:
    """The last records of a topic, the newest first, as `connector` converts them; `connectors` are all that write it.

    `complete`: they are the last ones of all partitions besides those that were `skipped`, and no limit ended the search
    for them early.
    """

    topic: str
    connector: str
    connectors: Sequence[str]
    records: Sequence[ShownRecord]
    complete: bool
    skipped: Sequence[SkippedRecords] = ()


class Observation(ABC):
    """Shows the activity of connectors, tasks and transactions.

    Methods raise the errors of the herder's other parts.
    """

    @abstractmethod
    def worker(self) -> Json:
        """Return this worker's `version`, and when it `started`."""

    @abstractmethod
    def here(self, connector: str | None = None) -> list[Json]:
        """Return the activity of this worker's tasks: of one connector with its last transactions, or of all."""

    @abstractmethod
    async def overview(self, authorization: str | None) -> Overview:
        """Return all connectors, with the sums of their tasks on all workers.

        `authorization` has the user's credentials (the HTTP header), for requests to other workers.
        """

    @abstractmethod
    async def activity(self, connector: str, authorization: str | None) -> list[Json]:
        """Return the activity of a connector's tasks, on all workers. Raises NotFoundError."""

    @abstractmethod
    def start(self) -> None:
        """Begin to keep figures and log lines of connectors."""

    @abstractmethod
    def stop(self) -> None:
        """Keep nothing more."""

    @abstractmethod
    async def sample(self) -> None:
        """Keep the figures of the step that has ended, as `history.STEP_SECONDS` divides time."""

    @abstractmethod
    def history_here(self, connector: str) -> list[HistoryPoint]:
        """Return the figures of the last hour of a connector's tasks on this worker."""

    @abstractmethod
    async def history(self, connector: str, authorization: str | None) -> list[HistoryPoint]:
        """Return the figures of the last hour of a connector, on all workers. Raises NotFoundError."""

    @abstractmethod
    def logs_here(self, connector: str) -> list[Json]:
        """Return the last log lines of this worker about a connector, the oldest first."""

    @abstractmethod
    async def logs(self, connector: str, authorization: str | None) -> list[Json]:
        """Return the last log lines of all workers about a connector, the oldest first. Raises NotFoundError."""

    @abstractmethod
    async def topic(self, topic: str) -> TopicView:
        """Return what read_committed consumers can read of a topic, and which transactions hide the rest.

        Raises NotFoundError for an unknown topic.
        """

    @abstractmethod
    async def records(self, topic: str, count: int, connector: str | None) -> RecordsView:
        """Return the last records of a topic, decoded as `connector` converts them, or any connector that writes it.

        Raises NotFoundError for an unknown topic or connector, ForbiddenError for topics that no connector writes, and
        ServiceUnavailableError while too many are read.
        """

    @abstractmethod
    async def abort(self, transactional_id: str) -> None:
        """Abort an open transaction by fencing its producer. Raises NotFoundError if there is none."""


def summed(tasks: Iterable[Mapping[str, Any]]) -> Json:
    """Return the sums of a connector's tasks.

    The lag is None if a task does not report it. An open transaction is the oldest, a commit the newest of all tasks.
    """
    tasks = list(tasks)
    lags = [task["lag"] for task in tasks]
    opened = [task["open_since"] for task in tasks if task["open_since"] is not None]
    commits = [task["last_commit"] for task in tasks if task["last_commit"] is not None]
    return {
        **{name: sum(task[name] for task in tasks) for name in _SUMS},
        "lag": None if not lags or None in lags else sum(lags),
        "open_since": min(opened, default=None),
        "last_commit": max(commits, default=None),
    }


def message_of(trace: str | None) -> str | None:
    """Return the message of a trace, cut to the length that a table has room for."""
    if not trace or not trace.strip():
        return None
    message = _message_line(trace.strip().splitlines())
    return message if len(message) <= _MESSAGE_LENGTH else f"{message[: _MESSAGE_LENGTH - len(_MORE)]}{_MORE}"


def _message_line(lines: Sequence[str]) -> str:
    """Java's traces begin with the message, Python's have it after the last frame."""
    if not lines[0].startswith("Traceback"):
        return lines[0]
    frames = [number for number, line in enumerate(lines) if line.startswith(" ")]
    return lines[-1] if not frames or frames[-1] + 1 == len(lines) else lines[frames[-1] + 1]


def changed_rows(before: Mapping[str, Json], now: Mapping[str, Json]) -> dict[str, Json | None]:
    """Return the rows that are new or differ, and None for those that are gone."""
    changed: dict[str, Json | None] = {name: row for name, row in now.items() if before.get(name) != row}
    return changed | dict.fromkeys(before.keys() - now.keys())
