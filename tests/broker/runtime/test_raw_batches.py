"""Authors' tasks that return Kafka's bytes themselves: transaction boundaries, and the metadata of their records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from fencepost import ConnectorTransactionBoundaries, SourceBatch, SourceConnector, SourceTask
from fencepost.runtime.state import State
from tests.support.checker import read_offsets, read_topic, values
from tests.support.task_runner import TaskRunner
from tests.support.topics import Topics

ABORTED = 3


class RawConnector(SourceConnector):
    def task_class(self) -> type[SourceTask]:
        return RawTask

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        del config
        return ConnectorTransactionBoundaries.SUPPORTED


class RawTask(SourceTask):
    """Returns five batches.

    With transaction.boundary=connector, it commits the second and fifth, and aborts the third.
    """

    learned: ClassVar[list[tuple[Any, list[dict[str, Any]]]]]

    def start(self, config: Mapping[str, str]) -> None:
        self._topic = config["topic"]
        self._number = 0

    def poll(self) -> SourceBatch | None:
        if self._number == 5:
            return None
        self._number += 1
        context = self.context.transaction_context
        if context is not None and self._number in (2, 5):
            context.commit_transaction()
        if context is not None and self._number == ABORTED:
            context.abort_transaction()
        rows = {
            "value": pa.array([b"%d" % self._number, None], pa.binary()),
            "partition": pa.array([1, 0], pa.int32()),
            "timestamp": pa.array([1_700_000_000_000 + self._number, None], pa.int64()),
        }
        offsets = [({"p": 1}, {"number": self._number})]
        return SourceBatch.of_columns(pa.RecordBatch.from_pydict(rows), offsets, topic=self._topic)

    def commit_batch(self, batch: SourceBatch, places: pa.RecordBatch) -> None:
        assert batch.columns is not None
        self.learned.append((batch.columns["value"][0].as_py(), places.to_pylist()))

    def at_end(self) -> bool:
        return self._number == 5


class BoundaryTask(SourceTask):
    """Returns one batch with boundaries after its first and third row, and fails in the next poll."""

    def start(self, config: Mapping[str, str]) -> None:
        self._topic = config["topic"]
        self._returned = False

    def poll(self) -> SourceBatch | None:
        if self._returned:
            raise ValueError("after the batch")
        self._returned = True
        columns = pa.RecordBatch.from_pydict({"key": [b"k"] * 4, "value": [b"1", b"2", None, b"4"]})
        boundaries = [(rows, [({"p": 1}, {"row": rows})]) for rows in (1, 3)]
        return SourceBatch.of_columns(columns, [({"p": 1}, {"row": 4})], topic=self._topic, boundaries=boundaries)


class ChoosingConnector(RawConnector):
    """Its configuration chooses the class of its tasks."""

    def task_class(self) -> type[SourceTask]:
        return BoundaryTask if self.context.configs()["with.boundaries"] == "true" else RawTask


def test_a_transaction_ends_at_a_boundary_within_a_batch(runner: TaskRunner, bootstrap_servers: str, topics: Topics):
    topic = topics.create()
    task = runner.run_to_end(
        {
            "name": topic,
            "connector.class": f"{__name__}.ChoosingConnector",
            "with.boundaries": "true",
            "topic": topic,
            "transaction.boundary": "connector",
        }
    )
    assert task.state is State.FAILED
    assert "after the batch" in str(task.error)
    assert values(read_topic(bootstrap_servers, topic)) == [b"1", b"2", None]
    assert read_offsets(bootstrap_servers, runner.offsets_topic, topic) == [({"p": 1}, {"row": 3})]


@pytest.mark.parametrize("boundary", ["poll", "connector"])
def test_a_task_learns_where_its_rows_are(runner: TaskRunner, bootstrap_servers: str, topics: Topics, boundary: str):
    topic, began = topics.create(partitions=2), time.time_ns() // 1_000_000
    RawTask.learned = []
    task = runner.run_to_end(
        {
            "name": topic,
            "connector.class": f"{__name__}.RawConnector",
            "topic": topic,
            "transaction.boundary": boundary,
        }
    )
    assert task.state is State.STOPPED, task.error
    assert not runner.worker.engine.started, "the rows are here already"
    written = [b"%d" % number for number in range(1, 6) if boundary == "poll" or number != ABORTED]
    assert [value for value in values(read_topic(bootstrap_servers, topic)) if value is not None] == written
    assert read_offsets(bootstrap_servers, runner.offsets_topic, topic) == [({"p": 1}, {"number": 5})]

    learned = {value: places for value, places in RawTask.learned if value in written}
    assert list(learned) == written
    found = {(one.partition, one.offset): one for one in read_topic(bootstrap_servers, topic)}
    for value, (first, second) in learned.items():
        assert found[1, first["offset"]].value == value
        assert first["timestamp"] == 1_700_000_000_000 + int(value)
        assert found[0, second["offset"]].value is None
        assert second["timestamp"] >= began
        assert {first["topic"], second["topic"]} == {topic}
