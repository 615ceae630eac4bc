"""`run_task`: one task without Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from fencepost import ConfigError, DataError, SourceBatch, SourceConnector, SourceRecord, SourceTask
from fencepost.api.errors import PluginError
from fencepost.testing import SourceOffsets, run_task
from tests.support.numbers import NumbersConnector

CONFIG = {"topic": "numbers"}


def test_poll_returns_records_with_values_and_offsets() -> None:
    with run_task(NumbersConnector, CONFIG) as task:
        polled = task.poll()

    assert polled.values == [1, 2, 3]
    assert polled.offsets == [({"numbers": 1}, {"number": 3})]


def test_a_task_resumes_from_the_committed_offsets() -> None:
    with run_task(NumbersConnector, CONFIG) as task:
        task.poll()
        task.commit()
        task.poll()
    with run_task(NumbersConnector, CONFIG, offsets=task.offsets) as again:
        assert again.poll().values == [4, 5, 6]


def test_commit_calls_the_task_for_each_record() -> None:
    with run_task(NumbersConnector, CONFIG) as task:
        task.poll()
        task.commit()
        assert task._instance._task.acknowledged == [1, 2, 3]  # type: ignore[attr-defined]


def test_a_wrong_configuration_is_refused() -> None:
    with pytest.raises(ConfigError, match="topic is required"):
        run_task(NumbersConnector, {})


def test_a_task_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="there is no task 1"):
        run_task(NumbersConnector, CONFIG, tasks_max=2, task=1)


def test_poll_gives_up_on_a_source_without_records() -> None:
    with (
        run_task(NumbersConnector, CONFIG | {"end": "0"}) as task,
        pytest.raises(TimeoutError, match="returned nothing"),
    ):
        task.poll(timeout_s=0.1)


class Once(SourceTask):
    """Returns the test's item once."""

    answer: Any = None

    def start(self, config: Any) -> None:
        """There is nothing to start."""

    def poll(self) -> Any:
        return type(self).answer


class OnceConnector(SourceConnector):
    def task_class(self) -> type[SourceTask]:
        return Once


def answering(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(Once, "answer", answer)


def test_an_invalid_answer_is_refused_as_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, [{"value": 1}])
    with run_task(OnceConnector, CONFIG) as task, pytest.raises(PluginError, match="whose item 0 is a dict"):
        task.poll()


def test_records_without_a_topic_have_the_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    given = SourceRecord({"file": "a"}, {"row": 1}, value="x")
    answering(monkeypatch, [given, SourceRecord({"file": "a"}, {"row": 2}, "other")])
    committed: list[Any] = []
    monkeypatch.setattr(Once, "commit_record", lambda _, *arguments: committed.append(arguments))
    with run_task(OnceConnector, CONFIG | {"topic": "numbers"}) as task:
        assert [record.topic for record in task.poll().records] == ["numbers", "other"]
        task.commit()
    assert committed[0][0] is given
    assert [metadata.topic for _, metadata in committed] == ["numbers", "other"]


def test_a_record_without_any_topic_is_refused_as_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, [SourceRecord({"file": "a"}, {"row": 1})])
    with run_task(OnceConnector, {}) as task, pytest.raises(DataError, match="has no topic: give SourceRecord"):
        task.poll()


def test_an_offset_that_cannot_be_stored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, [SourceRecord({}, {"at": datetime.now(UTC)}, "t")])
    with run_task(OnceConnector, CONFIG) as task:
        task.poll()
        with pytest.raises(DataError, match="'at' in the source offset is a value of type datetime"):
            task.commit()


@dataclass(frozen=True)
class Rows:
    """A reader whose splits are its rows."""

    schema: str = "value STRING, key INT"

    def read(self, split: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(split)


def batch(*rows: dict[str, Any]) -> SourceBatch:
    return SourceBatch(reader=Rows(), splits=[list(rows)], offsets=[({"file": "a"}, {"row": len(rows)})])


def test_the_rows_of_a_batch_are_records(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, batch({"value": "x", "key": 1}, {"value": "y", "key": 2}))
    with run_task(OnceConnector, CONFIG) as task:
        polled = task.poll()

    assert [(record.topic, record.key, record.value) for record in polled.records] == [
        ("numbers", 1, "x"),
        ("numbers", 2, "y"),
    ]
    assert polled.offsets == [({"file": "a"}, {"row": 2})]


def test_a_batch_without_a_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, batch({"id": 1}))
    with run_task(OnceConnector, CONFIG) as task, pytest.raises(DataError, match="there must be value"):
        task.poll()


def test_a_batch_without_a_topic_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, batch({"value": "x"}))
    with run_task(OnceConnector, {}) as task, pytest.raises(DataError, match="have no topic"):
        task.poll()


def test_offsets_come_back_as_json_keeps_them() -> None:
    offsets = SourceOffsets([({"b": 1, "a": "x"}, {"n": 1.0})])

    assert offsets.offset({"a": "x", "b": 1}) == {"n": 1.0}
    assert offsets.offset({"a": "y"}) is None
    assert offsets.items() == [({"b": 1, "a": "x"}, {"n": 1.0})]


def test_a_copy_of_offsets_is_independent() -> None:
    offsets = SourceOffsets([({"a": 1}, {"n": 1})])
    copy = offsets.copy()
    offsets.commit([({"a": 1}, {"n": 2})])

    assert copy.offset({"a": 1}) == {"n": 1}


def test_an_offset_of_none_removes_its_source_partitions_offset() -> None:
    offsets = SourceOffsets([({"a": 1}, {"n": 1}), ({"a": 2}, {"n": 2})])
    offsets.commit([({"a": 1}, None), ({"a": 3}, None)])

    assert offsets.items() == [({"a": 2}, {"n": 2})]
