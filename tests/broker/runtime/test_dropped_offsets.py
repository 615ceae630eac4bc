"""Source offsets of dropped records are committed without records, at an interval and when the task stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fencepost import SourceRecord
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.runtime.state import State
from tests.support.checker import read_offsets, read_topic, values
from tests.support.processes import wait_for
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import unique

DROP_ALL = {"transforms": "drop", "transforms.drop.type": "Filter"}
DROP_TOMBSTONES = DROP_ALL | {
    "transforms.drop.predicate": "empty",
    "predicates": "empty",
    "predicates.empty.type": "RecordIsTombstone",
}
OnPoll = Callable[[Any, Sequence[SourceRecord]], Sequence[SourceRecord]]


@pytest.fixture(scope="module")
def patient(broker: EmbeddedBroker) -> Iterator[TaskRunner]:
    """A worker whose offset flush interval does not end during a test."""
    with TaskRunner(broker.bootstrap_servers, {"spark.master": "local[2]"}) as runner:
        yield runner


@pytest.fixture(scope="module")
def prompt(broker: EmbeddedBroker) -> Iterator[TaskRunner]:
    """A worker with an offset flush interval of 1 ms."""
    settings = {"spark.master": "local[2]", "offset.flush.interval.ms": "1"}
    with TaskRunner(broker.bootstrap_servers, settings) as runner:
        yield runner


@pytest.fixture
def name() -> str:
    return unique("connector")


def saved(bootstrap_servers: str, runner: TaskRunner, name: str) -> list[bytes | None]:
    """Every committed offset, in order."""
    return [record.value for record in read_topic(bootstrap_servers, runner.offsets_topic) if name in str(record.key)]


def emptied(*kept: int) -> OnPoll:
    """Takes the value from every record except a few."""

    def empty(_: Any, records: Sequence[SourceRecord]) -> list[SourceRecord]:
        return [
            record
            if record.source_offset["saved"] in kept
            else SourceRecord(record.source_partition, record.source_offset, record.topic)
            for record in records
        ]

    return empty


def requesting(commit_after: int) -> OnPoll:
    """Requests a commit with the batch that ends with the record `commit_after`."""

    def request(task: Any, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        if records and records[-1].source_offset["saved"] == commit_after:
            task.context.transaction_context.commit_transaction()
        return records

    return request


def test_offsets_of_dropped_records_wait_for_the_end_if_the_interval_is_long(
    patient: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = patient.started(name, topic, {"limit": 50, "messages.per.poll": 10} | DROP_ALL, stop_at_end=True)
    assert task.join(480)
    assert task.state is State.STOPPED, task.error
    assert seen.committed == list(range(1, 51))
    assert set(seen.metadata.values()) == {None}
    assert saved(bootstrap_servers, patient, name) == [b'{"saved":50}'], "one commit, and not one for each poll"
    assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") == []


def test_a_source_whose_records_are_all_dropped_advances_while_it_runs(
    prompt: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = prompt.started(name, topic, {"limit": 30, "messages.per.poll": 10} | DROP_ALL)
    wait_for(
        lambda: (
            read_offsets(bootstrap_servers, prompt.offsets_topic, name)[-1:]
            == [({"task.id": f"{name}-0"}, {"saved": 30})]
        ),
        what="the offset of the last dropped record",
    )
    assert task.state is State.RUNNING
    stop(task)
    again, seen = prompt.started(name, topic, {"limit": 30} | DROP_ALL, stop_at_end=True)
    assert again.join(480)
    assert seen.last_seq == 30
    assert seen.committed == list(range(1, 31)), "none is read again"


def test_a_commit_with_records_has_the_offsets_of_dropped_ones_after_them(
    patient: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    config = {"limit": 30, "messages.per.poll": 10} | DROP_TOMBSTONES
    task, seen = patient.task(name, topic, config, stop_at_end=True)
    seen.on_poll = emptied(12)
    task.start()
    assert task.join(480)
    assert task.state is State.STOPPED, task.error
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == [12]
    assert saved(bootstrap_servers, patient, name) == [b'{"saved":20}', b'{"saved":30}']


def test_a_failure_before_the_commit_of_dropped_offsets_loses_nothing(
    patient: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    config = {"limit": 30, "messages.per.poll": 10, "errors.tolerance": "none"} | DROP_TOMBSTONES
    task, seen = patient.task(name, topic, config)

    def fail_late(task: Any, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        if records and records[-1].source_offset["saved"] == 30:
            raise RuntimeError("the source broke")
        return emptied(5, 25)(task, records)

    seen.on_poll = fail_late
    task.start()
    wait_for_state(task, State.FAILED)
    assert task.join(120)
    assert saved(bootstrap_servers, patient, name) == [b'{"saved":10}']
    again, seen = patient.task(name, topic, config, stop_at_end=True)
    seen.on_poll = emptied(5, 25)
    again.start()
    assert again.join(480)
    assert again.state is State.STOPPED, again.error
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == [5, 25]


@pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])
def test_offsets_of_dropped_records_are_committed_at_any_boundary_while_idle(
    prompt: TaskRunner, bootstrap_servers: str, topic: str, name: str, boundary: str
):
    config = {"limit": 20, "messages.per.poll": 10, "transaction.boundary": boundary} | DROP_ALL
    task, seen = prompt.task(name, topic, config)
    if boundary == "connector":
        seen.on_poll = requesting(20)
    task.start()
    wait_for(lambda: saved(bootstrap_servers, prompt, name)[-1:] == [b'{"saved":20}'], what="the last offset")
    stop(task)


def test_a_connectors_open_transaction_is_not_cut_by_offsets_of_dropped_records(
    prompt: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    config = {"limit": 40, "messages.per.poll": 10, "transaction.boundary": "connector"} | DROP_ALL
    task, seen = prompt.task(name, topic, config)
    seen.on_poll = requesting(20)
    task.start()
    wait_for(lambda: saved(bootstrap_servers, prompt, name) == [b'{"saved":20}'], what="the requested commit")
    polls = seen.polls
    wait_for(lambda: seen.last_seq == 40 and seen.polls > polls + 20, what="idle polls in the open transaction")
    stop(task)
    assert saved(bootstrap_servers, prompt, name) == [b'{"saved":20}']
    assert seen.committed == list(range(1, 21))


def test_offsets_that_wait_at_a_connectors_boundary_are_committed_at_the_stop(
    patient: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    config = {"limit": 20, "messages.per.poll": 10, "transaction.boundary": "connector"} | DROP_ALL
    task, seen = patient.task(name, topic, config)
    seen.on_poll = requesting(20)
    task.start()
    wait_for(lambda: seen.committed == list(range(1, 21)), what="the requested commit")
    assert saved(bootstrap_servers, patient, name) == []
    stop(task)
    assert saved(bootstrap_servers, patient, name) == [b'{"saved":20}']


def test_offsets_of_dropped_records_are_flushed_without_transactions(
    patient: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    config = {"limit": 20, "exactly.once.support": "disabled"} | DROP_ALL
    task, _ = patient.started(name, topic, config, stop_at_end=True)
    assert task.join(480)
    assert task.state is State.STOPPED, task.error
    assert saved(bootstrap_servers, patient, name) == [b'{"saved":20}']
