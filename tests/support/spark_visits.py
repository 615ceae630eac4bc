"""A driver that writes several sinks and dies with each at a step: `python -m tests.support.spark_visits SERVERS PLAN`.

PLAN is a file with a list of visits, one for each sink. A visit starts what writes the sink, a query or a thread that
writes runs, and waits until that stays at the step: FENCEPOST_TEST_FAIL_FOLDER has an order for it. When all are there the
driver sends SIGKILL to itself and its JVM. A process that stays at a step before it is killed has sent and done just what
one has that dies at once. A visit without a step ends when all is written.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from fencepost import failpoint
from fencepost.engine.engine import SparkEngine
from fencepost.failpoint import FailPoint
from fencepost.kafka.producer.partitioner import partition_for_keys
from fencepost.spark import exactly_once
from fencepost.spark.config.progress import SinkKey
from fencepost.spark.sink.progress_log import PARTITIONS
from tests.support.checker import log_ends
from tests.support.processes import wait_for
from tests.support.spark_queries import FileQuery, users_session, users_thread
from tests.support.spark_sink_app import make_query, write_run

MID_WRITE = "mid-write"
POINTS = [
    FailPoint.BEFORE_BEGIN.value,
    FailPoint.AFTER_BEGIN.value,
    MID_WRITE,
    FailPoint.BEFORE_OFFSETS.value,
    FailPoint.BEFORE_END_TXN.value,
    FailPoint.AFTER_END_TXN_SENT.value,
    FailPoint.BEFORE_CALLBACKS.value,
]

_PATIENCE = 1_800.0
_AT_ONCE = 8
_END = object()
_SETTINGS = {
    # Each batch that waits half-way occupies a task.
    "spark.master": "local[8]",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}


@dataclass(frozen=True)
class Visit:
    """One sink in one driver: it has files `first` to `files - 1` to write, each a batch.

    The last file is released from the folder `next`. If the visit `recovers`, that happens when the files before it are
    written, and the batch of the last file reaches `point`; otherwise the first batch that was not written does.
    """

    mode: str
    topic: str
    storage: str
    folder: str
    first: int
    files: int
    point: str | None = None
    recovers: bool = True

    def release(self) -> None:
        """Let Spark see the last file."""
        for file in (Path(self.folder) / "next").iterdir():
            file.rename(Path(self.folder) / "input" / file.name)


def progress_partition(key: SinkKey) -> int:
    """The partition with the progress of a sink, or of a run."""
    return int(partition_for_keys(pa.array([key.encoded]), PARTITIONS)[0])


def write_plan(file: Path, visits: list[Visit]) -> None:
    """Write a plan for a driver."""
    file.write_text(json.dumps([asdict(visit) for visit in visits]))


class _Writing(Protocol):
    """Writes a sink from `start` on."""

    def start(self) -> None: ...

    def has_written(self, file: int) -> bool: ...

    def failure(self) -> str | None: ...

    def stop(self) -> None: ...


class _Stream:
    def __init__(self, query: FileQuery) -> None:
        self._query = query

    def start(self) -> None:
        self._running = make_query(self._query).start(available_now=False)

    def has_written(self, file: int) -> bool:
        return (self._query.checkpoint / "commits" / str(file)).exists()

    def failure(self) -> str | None:
        return None if self._running.isActive else str(self._running.exception())

    def stop(self) -> None:
        self._running.stop()


class _Runs:
    """Writes each file as a run once it exists. All runs have their progress in the sink's partition."""

    def __init__(self, session: SparkSession, visit: Visit, options: dict[str, str]) -> None:
        self._session = session
        self._visit = visit
        self._options = options
        self._written = -1
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def has_written(self, file: int) -> bool:
        return self._written >= file

    def failure(self) -> str | None:
        return self._failure

    def stop(self) -> None:
        self._thread.join()

    def _write(self) -> None:
        folder = Path(self._visit.folder)
        try:
            with users_thread(self._session):
                for number in range(self._visit.first, self._visit.files):
                    wait_for((folder / "input" / f"{number:04}.txt").exists, _PATIENCE)
                    by_format = "format" in self._visit.mode
                    write_run(self._session, folder, number, self._options, run=self._run(number), by_format=by_format)
                    self._written = number
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            self._failure = f"{type(failure).__name__}: {failure}"

    def _run(self, number: int) -> str:
        sink = self._visit.topic
        runs = (f"{number}.{salt}" for salt in itertools.count())
        return next(r for r in runs if progress_partition(SinkKey(sink, r)) == progress_partition(SinkKey(sink)))


def _writing(session: SparkSession, visit: Visit, servers: str) -> _Writing:
    options: dict[str, Any] = {"bootstrap.servers": servers, "batch.size": "10000", "max.block.ms": "60000"}
    options |= {"topic": visit.topic, "name": visit.topic, "sink.storage.topic": visit.storage}
    match visit.mode:
        case "query":
            return _Stream(FileQuery(session, Path(visit.folder), exactly_once(**options)))
        case "format query":
            return _Stream(FileQuery(session, Path(visit.folder), options))
        case _:
            return _Runs(session, visit, options)


@dataclass
class _Visiting:
    """A visit in progress."""

    visit: Visit
    writing: _Writing
    servers: str

    def steps(self) -> Iterator[None]:
        """Do the visit, and return when the sink is at its step; each `next` checks a condition once."""
        visit, writing = self.visit, self.writing
        if visit.recovers:
            writing.start()
            yield from self._until(lambda: visit.files < 2 or writing.has_written(visit.files - 2), "recovery")
        if visit.point not in (None, MID_WRITE):
            self._order.touch()
        visit.release()
        if not visit.recovers:
            writing.start()
        yield from self._until(self._is_at_point, "its step")
        if visit.point is None:
            writing.stop()

    @property
    def _order(self) -> Path:
        return Path(os.environ[failpoint.FOLDER]) / f"{self.visit.point} {self.visit.topic}"

    def _is_at_point(self) -> bool:
        visit = self.visit
        if visit.point is None:
            return self.writing.has_written(visit.files - 1)
        if visit.point != MID_WRITE:
            return not self._order.exists()
        if not (Path(visit.folder) / f"waiting {visit.files - 1}").exists():
            return False
        written, stable = log_ends(self.servers, visit.topic)
        return written != stable

    def _until(self, condition: Callable[[], bool], what: str) -> Iterator[None]:
        start = time.monotonic()
        while not condition():
            failure = self.writing.failure()
            if failure is None and time.monotonic() > start + _PATIENCE:
                failure = f"not within {_PATIENCE} s"
            if failure is not None:
                sys.exit(f"FAILED {self.visit} before {what}: {failure}")
            yield
        _say(f"{self.visit.mode} {self.visit.topic} {self.visit.point}: {what} after {time.monotonic() - start:.1f} s")


def _say(text: str) -> None:
    """Write to the log."""
    print(text, flush=True)  # noqa: T201 - the output is the log


def main() -> None:
    servers, plan = sys.argv[1:3]
    visits = [Visit(**visit) for visit in json.loads(Path(plan).read_text())]
    with users_session(SparkEngine(_SETTINGS)) as session:
        waiting = [_Visiting(visit, _writing(session, visit, servers), servers).steps() for visit in visits]
        under_way: list[Iterator[None]] = []
        while waiting or under_way:
            while waiting and len(under_way) < _AT_ONCE:
                under_way.append(waiting.pop(0))
            under_way = [steps for steps in under_way if next(steps, _END) is not _END]
            time.sleep(0.02)
        if any(visit.point for visit in visits):
            os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
