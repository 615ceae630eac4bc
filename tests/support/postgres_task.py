"""Runs a task of PostgresSource on a real server, with Kafka's transactions in memory."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from pyspark import cloudpickle

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.errors import FencepostError, RetriableError
from fencepost.api.record import ArrowReader, SourceBatch
from fencepost.connectors.postgres.changes.task import PostgresSourceTask
from tests.support.bank import Event
from tests.support.postgres import Database
from tests.support.topics import unique

_SECONDS = 120.0


class Topics:
    """The committed records and offset, as a read_committed consumer sees them. It is also the task's context."""

    allowed_paths = ANYWHERE

    def __init__(self, database: Database, **config: str) -> None:
        self.prefix = unique("pg")
        self.slot = self.prefix.replace("-", "_")
        self.database = database
        self.committed: list[list[Event]] = []
        self.committed_offset: dict[str, Any] | None = None
        self.requested = False
        self.failures: list[RetriableError] = []
        self.fatal: FencepostError | None = None
        """The error that ended the task in `running`, None if there is none."""
        self.after_split: Callable[[], object] = lambda: None
        """Called after each split of a batch is read."""
        self.on_executors = False
        """Whether batches are read in another process than the task's."""
        self._stopping: threading.Event | None = None
        self._config = {
            "database.hostname": "127.0.0.1",
            "database.port": str(database.server.port),
            "database.user": "postgres",
            "database.dbname": database.name,
            "topic.prefix": self.prefix,
            "slot.name": self.slot,
        } | {name.replace("_", "."): value for name, value in config.items()}

    @property
    def offset_reader(self) -> Topics:
        return self

    @property
    def transaction_context(self) -> Topics:
        return self

    def configs(self) -> Mapping[str, str]:
        return self._config

    def change(self, **config: str) -> None:
        self._config |= {name.replace("_", "."): value for name, value in config.items()}

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        assert partition == {"server": self.prefix}
        return self.committed_offset

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        return [self.offset(partition) for partition in partitions]

    def commit_transaction(self, record: object = None) -> None:
        assert record is None
        self.requested = True

    def events(self, table: str) -> list[tuple[Any, Any]]:
        """Keys and values of a table's events, in order."""
        return [(json.loads(key), value) for part in self.committed for name, key, value in part if name == table]

    def ids(self, table: str) -> list[int]:
        """The ids in the keys of a table's events, in order."""
        return [key["id"] for key, _ in self.events(table)]

    def run(self, chance: random.Random | None = None, crash: float = 0.0) -> bool:
        """Run a task until it has read the log to its end; return False if it crashed, without its uncommitted records.

        It crashes with the probability `crash` before and after each commit.
        """
        task = PostgresSourceTask()
        task.context = self  # type: ignore[assignment]
        task.start(self._config)
        try:
            return self._poll(task, chance or random.Random(), crash)
        finally:
            task.stop()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep a task running, also at the end of the log, until the block ends or the task fails."""
        self._stopping, self.fatal = threading.Event(), None

        def work() -> None:
            try:
                while not self.run() and not stopping.is_set():
                    pass
            except FencepostError as error:
                self.fatal = error

        stopping, thread = self._stopping, threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
            self._stopping = None

    def stop_now(self) -> None:
        """Stop the running task before the block ends."""
        assert self._stopping is not None
        self._stopping.set()

    def failed(self, message: str) -> bool:
        """Whether the message of a retriable failure had this text."""
        return any(message in str(error) for error in list(self.failures))

    def _ended(self, task: PostgresSourceTask) -> bool:
        return task.at_end() if self._stopping is None else self._stopping.is_set()

    def _poll(self, task: PostgresSourceTask, chance: random.Random, crash: float) -> bool:
        written: list[Event] = []
        offset, deadline = self.committed_offset, time.monotonic() + _SECONDS
        while True:
            assert self._stopping is not None or time.monotonic() < deadline, self.failures[-3:]
            self.requested = False
            try:
                batch = task.poll()
            except RetriableError as error:
                self.failures.append(error)
                if self._stopping is not None and self._stopping.is_set():
                    return False
                time.sleep(0.05)
                continue
            if batch is not None:
                try:
                    written += self._rows(batch)
                except RetriableError as error:
                    # An error of a batch's reader ends the task.
                    self.failures.append(error)
                    return False
                offset = batch.offsets[-1][1] if batch.offsets else offset
            if self.requested:
                if chance.random() < crash:
                    return False
                self._commit(written, offset)
                written = []
                if chance.random() < crash:
                    return False
                task.commit()
            elif batch is None and self._ended(task):
                assert not written
                return True

    def _commit(self, written: list[Event], offset: Mapping[str, Any] | None) -> None:
        if written:
            self.committed.append(written)
        self.committed_offset = dict(offset or {})

    def _rows(self, batch: SourceBatch) -> list[Event]:
        reader = batch.reader
        assert reader is not None
        if self.on_executors:
            reader = cast("ArrowReader", cloudpickle.loads(cloudpickle.dumps(reader)))
        rows: list[Event] = []
        for split in batch.splits:
            for part in reader.read(split):
                keys = part["key"].to_pylist() if "key" in part.schema.names else [None] * len(part)
                tables = (topic.removeprefix(f"{self.prefix}.") for topic in part["topic"].to_pylist())
                texts = [json.dumps(key, default=str) for key in keys]
                rows += zip(tables, texts, part["value"].to_pylist(), strict=True)
            self.after_split()
        return rows

    def slot_in_use(self) -> bool:
        """Whether a task streams from the slot."""
        in_use = "select 1 from pg_replication_slots where slot_name = %s and active"
        return bool(self.database.execute(in_use, [self.slot]))

    def drop_slot(self) -> None:
        self.database.drop_slot(self.slot)
