"""A file connector without a worker, whose files are renamed while it reads them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost import SourceBatch
from fencepost.api.source import SourceTask
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.task import FileSourceTask
from tests.unit.connectors.files.discovery.test_ended import Committed
from tests.unit.connectors.files.test_file_source import config
from tests.unit.connectors.support import ConnectorContext, read, start


class Offsets(Committed):
    """Committed offsets, with an action that is run once after some are read."""

    then: Callable[[], object] = bool

    def offsets(self, partitions: Any) -> list[dict[str, Any] | None]:
        found = super().offsets(partitions)
        then, self.then = self.then, bool
        then()
        return found


class Reader:
    """A connector and its tasks, with the committed offsets and rows."""

    def __init__(self, files: object, **properties: str) -> None:
        self.properties = config(files, **{"format": "text", "files_poll_interval_ms": "3600000", **properties})
        self.offsets = Offsets()
        self.rows: list[Any] = []
        self.tasks: list[SourceTask] = []
        self.restart()

    def restart(
        self,
        most: int = 1,
        *,
        found: Callable[[], object] = bool,
        given: Callable[[], object] = bool,
        started: Callable[[], object] = bool,
    ) -> list[dict[str, str]]:
        """Start the connector again, and all tasks with its new configurations.

        `found` is called when the connector has found the files, `given` when it has distributed them, `started` when a
        task has read offsets.
        """
        connector, context = FileSourceConnector(), ConnectorContext(self.properties)
        context.offset_reader = self.offsets  # type: ignore[assignment]
        connector.context = context
        connector.start(self.properties)
        # The connector scans again only in `look`.
        connector.stop()
        self.connector = connector
        found()
        return self._distribute(most, given, started)

    def look(
        self, most: int = 1, *, given: Callable[[], object] = bool, started: Callable[[], object] = bool
    ) -> list[dict[str, str]]:
        """Scan again with the same connector, and start all tasks with its configurations, like `restart`."""
        self.connector._watch._look()
        return self._distribute(most, given, started)

    def _distribute(
        self, most: int, given: Callable[[], object], started: Callable[[], object]
    ) -> list[dict[str, str]]:
        configs = self.connector.task_configs(most)
        given()
        self.offsets.then = started
        self.tasks = [start(FileSourceTask(), config, self.offsets) for config in configs]  # type: ignore[arg-type]
        self.offsets.then = bool
        return configs

    def poll(self, *, commits: bool = True) -> bool:
        """Poll all tasks once. Return whether any returned rows."""
        found = self._polled()
        if commits:
            self._commit(found)
        return bool(found)

    def poll_before_commit(self) -> Callable[[], None]:
        """Poll all tasks once. Return a function that commits their records."""
        found = self._polled()
        return lambda: self._commit(found)

    def _polled(self) -> list[tuple[SourceTask, SourceBatch, list[Any]]]:
        found = [(task, batch) for task in self.tasks if isinstance(batch := task.poll(), SourceBatch)]
        return [(task, batch, read(batch) if batch.splits else []) for task, batch in found]

    def _commit(self, found: list[tuple[SourceTask, SourceBatch, list[Any]]]) -> None:
        for task, batch, rows in found:
            self.rows += rows
            self.offsets.commit(task, batch)

    def read_all(self) -> list[Any]:
        while self.poll():
            pass
        return self.rows


def text(*numbers: int) -> str:
    return "".join(f"line {number}\n" for number in numbers)


def lines(*numbers: int) -> list[str]:
    return [f"line {number}" for number in numbers]


def rotate(folder: Path, content: str) -> None:
    """Rotate like logrotate: log -> log.1 -> log.2, and a new log."""
    for name, new in (("log.1", "log.2"), ("log", "log.1")):
        if (folder / name).exists():
            (folder / name).rename(folder / new)
    (folder / "log").write_text(content)


def as_text(path: Path) -> Mapping[str, str]:
    path.write_text(text(1, 2))
    return {}


def as_gzip(path: Path) -> Mapping[str, str]:
    path.write_bytes(gzip.compress(text(1, 2).encode()))
    return {}


def as_latin_1(path: Path) -> Mapping[str, str]:
    path.write_text(text(1, 2), "latin-1")
    return {"encoding": "latin-1"}


def as_parquet(path: Path) -> Mapping[str, str]:
    pq.write_table(pa.table({"line": ["line 1", "line 2"]}), path)
    return {"format": "parquet"}


forms = pytest.mark.parametrize("write", [as_text, as_gzip, as_latin_1, as_parquet])
