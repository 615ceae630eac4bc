"""The connectors of a soak, whose records are numbered: `{"task": <source partition>, "seq": <number>}`."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from fencepost import SourceRecord, SourceTask
from tests.support.java_plugins import FILE_STREAM
from tests.support.sequence_source import SequenceConnector, SequenceTask, properties

# Often enough to be in a transaction at any fault, and rarely enough to leave CPU to the workers.
_POLL_MS = 60
_COMMIT_EVERY = 3
_SHARE_OF_ABORTED = 0.3
_STRING = "org.apache.kafka.connect.storage.StringConverter"
OF_LINES = ("lines", "java")
"""The connectors that read the file of lines."""


class NumberedTask(SequenceTask):
    """Counts, and sends JSON records that `fencepost verify` can check."""

    def _record(self, seq: int) -> SourceRecord:
        value = json.dumps({"task": self._id, "seq": seq})
        return SourceRecord(self._partition, {"saved": seq}, self._topic, value=value, key=f"{self._id}-{seq}")


class CommittingTask(NumberedTask):
    """Commits a transaction at every third poll."""

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self._polls = 0

    def poll(self) -> Sequence[SourceRecord] | None:
        records = super().poll()
        self._polls += 1
        if self._polls % _COMMIT_EVERY == 0:
            self.context.transaction_context.commit_transaction()
        return records


class AbortingTask(NumberedTask):
    """Commits each poll's records, and then sometimes sends records that it aborts, without a number."""

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self._chance = random.Random()

    def poll(self) -> Sequence[SourceRecord] | None:
        records = list(super().poll() or ())
        if not records:
            return records
        transaction = self.context.transaction_context
        transaction.commit_transaction(records[-1])
        if self._chance.random() < _SHARE_OF_ABORTED:
            # The offset of an aborted record is committed all the same, so it repeats the last record's offset.
            doomed = SourceRecord(self._partition, {"saved": self.seq}, self._topic, value="aborted", key=self._id)
            transaction.abort_transaction(doomed)
            records.append(doomed)
        return records


class NumberedConnector(SequenceConnector):
    def task_class(self) -> type[SourceTask]:
        return NumberedTask


class CommittingConnector(SequenceConnector):
    def task_class(self) -> type[SourceTask]:
        return CommittingTask


class AbortingConnector(SequenceConnector):
    def task_class(self) -> type[SourceTask]:
        return AbortingTask


def configurations(lines: Path) -> dict[str, dict[str, str]]:
    """The soak's connector configurations by name; each connector writes to the topic of its name."""
    return {
        "lines": {
            "name": "lines",
            "connector.class": "fencepost:FileStreamSource",
            "topic": "lines",
            "file": str(lines),
            "exactly.once.support": "required",
            "tasks.max": "1",
        },
        "aborting": _numbered("aborting", AbortingConnector, tasks=2) | {"transaction.boundary": "connector"},
        "polling": _numbered("polling", NumberedConnector, tasks=3),
        # Kafka's own connector, from its jar, in a JVM of its current worker.
        "java": {
            "name": "java",
            "connector.class": f"java:{FILE_STREAM}",
            "topic": "java",
            "file": str(lines),
            "exactly.once.support": "required",
            "tasks.max": "1",
            "task.restart.backoff.ms": "100",
            "key.converter": _STRING,
            "value.converter": _STRING,
        },
        "timed": _numbered("timed", NumberedConnector, tasks=2)
        | {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "700"},
        "committing": _numbered("committing", CommittingConnector, tasks=2)
        | {"transaction.boundary": "connector", "offsets.storage.topic": "committing-offsets"},
    }


def _numbered(name: str, connector: type[SequenceConnector], *, tasks: int) -> dict[str, str]:
    extra = {"tasks.max": tasks, "messages.per.poll": 5, "poll.ms": _POLL_MS}
    return properties(name, name, extra) | {"connector.class": f"{connector.__module__}.{connector.__name__}"}


def line(number: int) -> str:
    """A line of the file that the connector `lines` reads."""
    return json.dumps({"task": "lines", "seq": number}) + "\n"
