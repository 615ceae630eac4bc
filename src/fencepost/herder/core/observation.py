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
_AFTER_A_CAUSE: Final = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
"""The lines of a Python traceback between a cause and the error that followed from it."""
_MORE: Final = " ..."


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker of the group: how much runs on it, its version, and its start, in milliseconds since 1970.

    Version and start are None for a worker that does not report them.
    """

    tasks: int
    connectors: int
    version: str | None = None
    started: int | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """A group at one moment. `rows` are connectors by name.

    `silent` are workers that did not answer, with the reasons.
    """

    worker_id: str
    group_id: str
    workers: Mapping[str, WorkerView]
    """All members of the group, and other workers that run something according to the statuses."""
    rows: Mapping[str, Json]
    silent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HidingTransaction:
    """An open transaction that has records in a topic.

    `partitions` are the topic's partitions with records of the transaction. `connector` and `task` own its
    transactional id; they are None if the transaction belongs to another program.
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
    """How far read_committed consumers can read a topic: the last stable offset and the end of each partition."""

    topic: str
    partitions: Mapping[int, tuple[int, int]]
    transactions: Sequence[HidingTransaction]


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record for display. Key, value and headers are JSON as text, so that no parser rounds a number; None is a null.

    `timestamp` is in milliseconds since 1970. `cut` names which of `key`, `value` and `headers` were shortened.
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
    """Offsets of a partition whose records are not shown, with a reason that users can read."""

    partition: int
    first_offset: int
    last_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordsView:
    """The last records of a topic, newest first, as `connector` converts them. All `connectors` write to this topic.

    `complete` means that these are the last records of all partitions, except for those that were `skipped`: no limit
    ended the search early.
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
        """Return the activity of this worker's tasks: of one connector, including its last transactions, or of all."""

    @abstractmethod
    async def overview(self, authorization: str | None) -> Overview:
        """Return all connectors, each with the sums over its tasks on all workers.

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
        """Stop keeping figures and log lines."""

    @abstractmethod
    async def sample(self) -> None:
        """Keep the figures of the step that has just ended. A step takes `history.STEP_SECONDS`."""

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
        """Return how far read_committed consumers can read a topic, and the open transactions that hide later records.

        Raises NotFoundError for an unknown topic.
        """

    @abstractmethod
    async def records(self, topic: str, count: int, connector: str | None) -> RecordsView:
        """Return the last records of a topic, decoded as records of `connector`, else of any connector that writes it.

        Raises NotFoundError for an unknown topic or connector, ForbiddenError for topics that no connector writes, and
        ServiceUnavailableError while too many topics are being read.
        """

    @abstractmethod
    async def abort(self, transactional_id: str) -> None:
        """Abort an open transaction by fencing its producer. Raises NotFoundError if there is none."""


def summed(tasks: Iterable[Mapping[str, Any]]) -> Json:
    """Return the sums over a connector's tasks.

    The lag is None if a task does not report it. The open transaction is the oldest one, and the commit the newest one,
    of all tasks.
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
    """Return the message of a trace, cut to the length that fits a table."""
    if not trace or not trace.strip():
        return None
    message = message_line(trace)
    return message if len(message) <= _MESSAGE_LENGTH else f"{message[: _MESSAGE_LENGTH - len(_MORE)]}{_MORE}"


def message_line(trace: str) -> str:
    """Return the line with the message of a trace.

    Java's traces begin with this line. Python's traces have the causes first; the message of the error itself follows
    its last frame. A traceback without frames ends with the message.
    """
    lines = trace.strip().splitlines() or [""]
    error = max((number + 1 for number, line in enumerate(lines) if line in _AFTER_A_CAUSE), default=0)
    lines = [line for line in lines[error:] if line] or lines
    if not lines[0].startswith("Traceback"):
        return lines[0]
    frames = [number for number, line in enumerate(lines) if line.startswith(" ")]
    return lines[-1] if not frames or frames[-1] + 1 == len(lines) else lines[frames[-1] + 1]


def changed_rows(before: Mapping[str, Json], now: Mapping[str, Json]) -> dict[str, Json | None]:
    """Return the rows that are new or have changed, and None for rows that no longer exist."""
    changed: dict[str, Json | None] = {name: row for name, row in now.items() if before.get(name) != row}
    return changed | dict.fromkeys(before.keys() - now.keys())
