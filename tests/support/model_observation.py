"""The page's data for the model herder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.herder.core.history import HistoryPoint
from fencepost.herder.core.observation import (
    Json,
    Observation,
    Overview,
    RecordsView,
    ShownRecord,
    TopicView,
    WorkerView,
    summed,
)
from fencepost.herder.errors import NotFoundError

if TYPE_CHECKING:
    from tests.support.model_herder import ModelHerder

MODEL_WORKER = "127.0.0.1:8083"
"""The worker of the model herder."""


class ModelObservation(Observation):
    """Every task has committed one transaction; `topics` and `rate` are set by tests."""

    def __init__(self, model: ModelHerder) -> None:
        self._model = model
        self.views: dict[str, TopicView] = {}
        self.aborted: list[str] = []
        self.asked: list[str | None] = []
        self.rate = 12.5
        self.kept = -1
        """The number of samples since the start; -1 before the start and after the stop."""

    def worker(self) -> Json:
        return {"version": "1.0", "started": 1_700_000_000_000}

    def here(self, connector: str | None = None) -> list[Json]:
        names = self._model.known if connector is None else [connector]
        return [self._task(name, number) for name in names for number in range(self._model.known[name].tasks)]

    def _task(self, connector: str, number: int) -> Json:
        counts = {"records": 3, "bytes": 99, "open_records": 0, "skipped": 0, "transactions": 1, "aborted": 0}
        ended = [{"since": 1_700_000_000_000, "until": 1_700_000_001_000, "records": 3, "end": "COMMITTED"}]
        times = {"lag": None, "restarts": 0, "open_since": None, "last_commit": 1_700_000_001_000}
        return {"connector": connector, "task": number, **counts, "rate": self.rate, **times, "ended": ended}

    async def overview(self, authorization: str | None) -> Overview:
        self.asked.append(authorization)
        rows = {name: self._row(name) for name in self._model.known}
        return Overview(
            MODEL_WORKER, "group", {MODEL_WORKER: WorkerView(len(rows), len(rows), "1.0", 1_700_000_000_000)}, rows
        )

    def _row(self, name: str) -> Json:
        status = self._model.state_info(name, "", "")
        return {
            "name": name,
            "class": self._model.known[name].config["connector.class"],
            **summed(self.here(name)),
            "state": status.connector.state,
            "worker_id": MODEL_WORKER,
            "error": next((task.trace for task in status.tasks if task.trace), None),
            "tasks": [{"id": task.id, "state": task.state, "worker_id": task.worker_id} for task in status.tasks],
        }

    async def activity(self, connector: str, authorization: str | None) -> list[Json]:
        self.asked.append(authorization)
        self._model.find(connector)
        return self.here(connector)

    def start(self) -> None:
        self.kept = 0

    def stop(self) -> None:
        self.kept = -1

    async def sample(self) -> None:
        self.kept += 1

    def history_here(self, connector: str) -> list[HistoryPoint]:
        return [HistoryPoint(1_700_000_000, self.rate, None)] if connector in self._model.known else []

    async def history(self, connector: str, authorization: str | None) -> list[HistoryPoint]:
        self.asked.append(authorization)
        self._model.find(connector)
        return self.history_here(connector)

    def logs_here(self, connector: str) -> list[Json]:
        line = {"at": 1_700_000_000_000, "level": "WARNING", "task": 0, "message": "<b>", "worker": MODEL_WORKER}
        return [line] if connector in self._model.known else []

    async def logs(self, connector: str, authorization: str | None) -> list[Json]:
        self.asked.append(authorization)
        self._model.find(connector)
        return self.logs_here(connector)

    async def topic(self, topic: str) -> TopicView:
        if topic not in self.views:
            raise NotFoundError(f"Topic {topic} does not exist")
        return self.views[topic]

    async def records(self, topic: str, count: int, connector: str | None) -> RecordsView:
        found = [ShownRecord(0, 7, 1_700_000_000_000, None, '{"id": 9007199254740993}', [("h", '"x"')])]
        return RecordsView(topic, connector or "a", ["a", "b"], found[:count], complete=True)

    async def abort(self, transactional_id: str) -> None:
        self.aborted.append(transactional_id)
