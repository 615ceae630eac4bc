"""Collects this worker's data for the page at /ui: its tasks, its connectors, and the topics of its cluster."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core import history
from fencepost.herder.core.history import History, HistoryPoint
from fencepost.herder.core.observation import (
    HidingTransaction,
    Json,
    Observation,
    Overview,
    RecordsView,
    TopicView,
    WorkerView,
    message_of,
    summed,
)
from fencepost.herder.errors import NotFoundError
from fencepost.herder.requests.connector_logs import ConnectorLogs
from fencepost.herder.requests.connector_states import ConnectorStates
from fencepost.herder.requests.sampler import Sampler
from fencepost.herder.requests.topic_records import TopicRecords
from fencepost.herder.work.parts import HerderParts
from fencepost.kafka.admin.open_transactions import NoOpenTransactionError, OpenTransaction
from fencepost.kafka.consumer.partition_requests import LATEST
from fencepost.kafka.errors import TopicNotFoundError, UnsupportedBrokerError
from fencepost.runtime.connector.client_properties import admin_config
from fencepost.runtime.metrics.task_metrics import Activity
from fencepost.version import __version__

_ANSWER_MS: Final = 10_000
_EARLY_MS: Final = 100
_CLASS: Final = "connector.class"


class LocalObservation(Observation):
    """Shows a worker without a group. The subclass for a group adds the answers of the group's other workers."""

    def __init__(self, parts: HerderParts, states: ConnectorStates) -> None:
        self._parts = parts
        self._states = states
        self._records = TopicRecords(parts, states)
        self._sampler = Sampler(parts.worker.metrics.tasks)
        self._history = History()
        self._logs = ConnectorLogs()
        self._started = time.time_ns() // 1_000_000

    def worker(self) -> Json:
        """Return this worker's version and start."""
        return {"version": __version__, "started": self._started}

    def here(self, connector: str | None = None) -> list[Json]:
        """Return the activity of this worker's tasks: of one connector, including its last transactions, or of all."""
        found = self._parts.worker.metrics.activities(connector)
        return [_task(task, activity, with_ended=connector is not None) for task, activity in found.items()]

    async def overview(self, authorization: str | None) -> Overview:
        """Return all connectors."""
        del authorization
        await self._parts.started()
        return self._overview({self._parts.worker_id: {"tasks": self.here(), "worker": self.worker()}}, {})

    async def activity(self, connector: str, authorization: str | None) -> list[Json]:
        """Return the activity of a connector's tasks. Raises NotFoundError."""
        del authorization
        await self._parts.started()
        self._states.config(connector)
        return self.here(connector)

    def _overview(self, answers: Mapping[str, Json], silent: Mapping[str, str]) -> Overview:
        tasks: defaultdict[str, list[Json]] = defaultdict(list)
        for answer in answers.values():
            for task in answer["tasks"]:
                tasks[task["connector"]].append(task)
        rows = {name: self._row(name, tasks[name]) for name in self._parts.state.connectors()}
        running = Counter(task["worker_id"] for row in rows.values() for task in row["tasks"])
        connectors = Counter(row["worker_id"] for row in rows.values() if row["worker_id"])
        workers = {
            worker: WorkerView(running[worker], connectors[worker], **_version_and_start(answers.get(worker, {})))
            for worker in sorted({*answers, *silent, *running, *connectors})
        }
        return Overview(self._parts.worker_id, self._parts.config.group_id, workers, rows, silent)

    def _row(self, name: str, tasks: list[Json]) -> Json:
        row = {"name": name, "class": self._states.config(name).get(_CLASS, ""), **summed(tasks)}
        try:
            status = self._states.status(name)
        except NotFoundError:
            return {**row, "state": "UNASSIGNED", "worker_id": "", "error": None, "tasks": []}
        traces = (status.connector.trace, *(task.trace for task in status.tasks))
        return {
            **row,
            "state": status.connector.state,
            "worker_id": status.connector.worker_id,
            "error": next(filter(None, map(message_of, traces)), None),
            "tasks": [{"id": task.id, "state": task.state, "worker_id": task.worker_id} for task in status.tasks],
        }

    def start(self) -> None:
        """Begin to keep log lines."""
        self._logs.start()

    def stop(self) -> None:
        """Stop keeping log lines."""
        self._logs.stop()

    async def sample(self) -> None:
        """Add the throughput and lag of this worker's connectors in the last step (20 s) to the history."""
        figures = await asyncio.to_thread(self._sampler.figures)
        self._history.record(_step() - 1, figures)

    def history_here(self, connector: str) -> list[HistoryPoint]:
        """Return the figures of the last hour of a connector's tasks on this worker."""
        return self._history.points(connector, _step())

    async def history(self, connector: str, authorization: str | None) -> list[HistoryPoint]:
        """Return the figures of the last hour of a connector. Raises NotFoundError."""
        del authorization
        await self._parts.started()
        self._states.config(connector)
        return self.history_here(connector)

    def logs_here(self, connector: str) -> list[Json]:
        """Return the last log lines of this worker about a connector."""
        worker = self._parts.worker_id
        return [{**line._asdict(), "worker": worker} for line in self._logs.lines(connector)]

    async def logs(self, connector: str, authorization: str | None) -> list[Json]:
        """Return the last log lines about a connector. Raises NotFoundError."""
        del authorization
        await self._parts.started()
        self._states.config(connector)
        return self.logs_here(connector)

    async def topic(self, topic: str) -> TopicView:
        """Return how far read_committed consumers can read a topic. Raises NotFoundError."""
        try:
            partitions, found = await asyncio.gather(
                self._parts.run(self._ends, topic), self._parts.run(self._open_transactions)
            )
        except TopicNotFoundError as error:
            raise NotFoundError(str(error)) from error
        return TopicView(topic, partitions, list(hiding(found, topic, self._owner)))

    async def records(self, topic: str, count: int, connector: str | None) -> RecordsView:
        """Return the last records of a topic. Raises NotFoundError, ForbiddenError and ServiceUnavailableError."""
        await self._parts.started()
        return await self._records.read(topic, count, connector)

    async def abort(self, transactional_id: str) -> None:
        """Abort an open transaction by fencing its producer. Raises NotFoundError if there is none."""
        try:
            await self._parts.run(self._abort, transactional_id)
        except NoOpenTransactionError as error:
            raise NotFoundError(str(error)) from error

    def _ends(self, topic: str) -> dict[int, tuple[int, int]]:
        parts = self._parts
        with parts.worker.clients.topic_reader(admin_config(parts.config, None), topic) as reader:
            stable = reader.committed_offsets(LATEST, _ANSWER_MS)
            ends = reader.end_offsets(_ANSWER_MS)
        return {number: (offset, max(offset, ends.get(number, offset))) for number, offset in stable.items()}

    def _open_transactions(self) -> list[OpenTransaction]:
        with self._parts.worker.clients.admin(admin_config(self._parts.config, None)) as admin:
            try:
                return admin.open_transactions()
            except UnsupportedBrokerError:
                return []

    def _abort(self, transactional_id: str) -> None:
        with self._parts.worker.clients.admin(admin_config(self._parts.config, None)) as admin:
            admin.abort_transaction(transactional_id)

    def _owner(self, transactional_id: str) -> ConnectorTaskId | None:
        group = self._parts.config.group_id
        name, _, number = transactional_id.removeprefix(f"{group}-").rpartition("-")
        if (
            not transactional_id.startswith(f"{group}-")
            or not number.isdecimal()
            or not self._parts.state.contains(name)
        ):
            return None
        return ConnectorTaskId(name, int(number))


def _step() -> int:
    """Return the number of the step that has just begun. The timer that calls this may be some milliseconds early."""
    return round(time.time() * 1000 + _EARLY_MS) // (history.STEP_SECONDS * 1000)


def hiding(
    found: Iterable[OpenTransaction], topic: str, owner: Callable[[str], ConnectorTaskId | None]
) -> Iterable[HidingTransaction]:
    """Yield transactions with records in a topic, the oldest first. `owner` returns the task of a transactional id."""
    for transaction in found:
        partitions = [number for name, number in transaction.partitions if name == topic]
        if partitions:
            task = owner(transaction.transactional_id)
            yield HidingTransaction(
                transaction.transactional_id,
                transaction.identity.producer_id,
                transaction.identity.epoch,
                transaction.state,
                transaction.started_ms,
                transaction.timeout_ms,
                partitions,
                None if task is None else task.connector,
                None if task is None else task.task,
            )


def _task(task: ConnectorTaskId, activity: Activity, *, with_ended: bool) -> Json:
    counts = activity.counts
    shown: Json = {
        "connector": task.connector,
        "task": task.task,
        "records": counts.records,
        "bytes": counts.bytes,
        "open_records": counts.open,
        "skipped": counts.skipped,
        "transactions": counts.transactions,
        "aborted": counts.aborted,
        "rate": round(activity.rate, 1),
        "lag": activity.lag,
        "restarts": activity.restarts,
        "open_since": activity.open_since_ms,
        "last_commit": activity.last_commit_ms,
    }
    if with_ended:
        shown["ended"] = [
            {"since": each.since_ms, "until": each.until_ms, "records": each.records, "end": each.end}
            for each in activity.ended
        ]
    return shown


def _version_and_start(answer: Json) -> dict[str, Any]:
    """Return the version and the start in a worker's answer; an empty dict if that worker does not send them."""
    worker = answer.get("worker")
    version, started = (worker.get("version"), worker.get("started")) if isinstance(worker, dict) else (None, None)
    if not isinstance(version, str) or not isinstance(started, int):
        return {}
    return {"version": version, "started": started}
