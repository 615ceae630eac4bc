"""A source that counts, as the test connector of Kafka Connect's own integration tests does.

Task t of connector c gives the keys `key-<c>-<t>-<seq>` and values `value-<c>-<t>-<seq>`, seq from 1; its source
partition is `{"task.id": "<c>-<t>"}`, its offset `{"saved": seq}`, and it goes on after `saved`. What its tasks saw is
in `SEEN`, by connector name, for tests in the same process.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost import (
    ConfigDef,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    RecordMetadata,
    RetriableError,
    SourceConnector,
    SourceRecord,
    SourceTask,
)

_IDLE_SECONDS = 0.01


@dataclass
class Seen:
    """The calls that the tasks of one connector got, and a test's instructions to them."""

    polls: int = 0
    starts: int = 0
    stops: int = 0
    last_seq: int = 0
    calls: list[tuple[str, int]] = field(default_factory=list)
    """`commit_record` with the seq, and `commit` with the number of records committed so far, in order."""
    metadata: dict[int, RecordMetadata | None] = field(default_factory=dict)
    on_start: Callable[[SourceTask], None] = lambda _task: None
    on_poll: Callable[[SourceTask, list[SourceRecord]], Sequence[SourceRecord] | None] = lambda _task, records: records
    on_commit: Callable[[SourceTask], None] = lambda _task: None

    @property
    def committed(self) -> list[int]:
        return [seq for call, seq in self.calls if call == "commit_record"]

    @property
    def commits(self) -> int:
        return sum(call == "commit" for call, _ in self.calls)


SEEN: defaultdict[str, Seen] = defaultdict(Seen)


def _failure(config: Mapping[str, str], name: str) -> RetriableError | None:
    """The error to raise while the file named by a property exists."""
    with suppress(FileNotFoundError):
        return RetriableError(f"the source is away{Path(config.get(name, '/no/such/file')).read_text()}")
    return None


class SequenceConnector(SourceConnector):
    def version(self) -> str:
        return "1.0"

    def config(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("topic", ConfigDef.Type.STRING)
            .define("messages.per.poll", ConfigDef.Type.INT, 100)
            .define("limit", ConfigDef.Type.INT, None)
            .define("poll.ms", ConfigDef.Type.INT, 0)
        )

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config
        if failure := _failure(config, "fail.while.exists"):
            raise failure
        self._stopping = threading.Event()
        if "tasks.in.file" in config:
            threading.Thread(target=self._watch, args=[self._wanted_tasks()], daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _watch(self, tasks: int) -> None:
        """Request a task reconfiguration when the number in the file changes."""
        while not self._stopping.wait(_IDLE_SECONDS):
            if tasks != (tasks := self._wanted_tasks()):
                self.context.request_task_reconfiguration()

    def _wanted_tasks(self) -> int:
        return int(Path(self._config["tasks.in.file"]).read_text())

    def task_class(self) -> type[SourceTask]:
        if failure := _failure(self.context.configs(), "task.class.fails.while.exists"):
            raise failure
        return SequenceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if failure := _failure(self._config, "report.while.exists"):
            self.context.raise_error(failure)
        tasks = self._wanted_tasks() if "tasks.in.file" in self._config else max_tasks
        return [{**self._config, "task.id": str(number)} for number in range(tasks)]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        if failure := _failure(config, "support.fails.while.exists"):
            raise failure
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(
        self,
        config: Mapping[str, str],  # noqa: ARG002 - the API's
    ) -> ConnectorTransactionBoundaries:
        return ConnectorTransactionBoundaries.SUPPORTED


class SequenceTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.name = config["name"]
        self.seen = SEEN[self.name]
        self.seen.starts += 1
        self.seen.on_start(self)
        if failure := _failure(config, "task.fails.while.exists"):
            raise failure
        self._id = f"{self.name}-{config['task.id']}"
        self._partition = {"task.id": self._id}
        self._topic = config["topic"]
        self._per_poll = int(config.get("messages.per.poll", "100"))
        self._limit = int(config["limit"]) if "limit" in config else None
        self._pause_seconds = int(config.get("poll.ms", "0")) / 1000
        saved = self.context.offset_reader.offset(self._partition)
        self.seq = saved["saved"] if saved else 0
        self._stopped = threading.Event()

    def poll(self) -> Sequence[SourceRecord] | None:
        self.seen.polls += 1
        if self._pause_seconds:
            self._stopped.wait(self._pause_seconds)
        last = self.seq + self._per_poll
        if self._limit is not None:
            last = min(last, self._limit)
        records = [self._record(seq) for seq in range(self.seq + 1, last + 1)]
        self.seq = last
        self.seen.last_seq = max(self.seen.last_seq, last)
        if not records:
            self._stopped.wait(_IDLE_SECONDS)
        return self.seen.on_poll(self, records)

    def _record(self, seq: int) -> SourceRecord:
        return SourceRecord(
            self._partition, {"saved": seq}, self._topic, value=f"value-{self._id}-{seq}", key=f"key-{self._id}-{seq}"
        )

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        seq = record.source_offset["saved"]
        self.seen.metadata[seq] = metadata
        self.seen.calls.append(("commit_record", seq))

    def commit(self) -> None:
        self.seen.calls.append(("commit", len(self.seen.metadata)))
        self.seen.on_commit(self)

    def stop(self) -> None:
        self.seen.stops += 1
        self._stopped.set()

    def at_end(self) -> bool:
        return self.seq == self._limit


def seqs(values: Sequence[bytes | None], connector: str, task: int = 0) -> list[int]:
    """The sequence numbers of a task among the values of a topic, in order."""
    prefix = f"value-{connector}-{task}-"
    return [int(text.removeprefix(prefix)) for value in values if (text := (value or b"").decode()).startswith(prefix)]


def properties(name: str, topic: str, extra: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The configuration of a SequenceConnector."""
    config = {
        "name": name,
        "connector.class": f"{SequenceConnector.__module__}.{SequenceConnector.__name__}",
        "topic": topic,
        "exactly.once.support": "required",
    }
    return config | {key: str(value) for key, value in (extra or {}).items()}
