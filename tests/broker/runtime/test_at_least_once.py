"""Tasks with at-least-once delivery: records are written first and source offsets after them, never vice versa."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fencepost import SourceRecord
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from tests.support.checker import read_offsets, read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import Topics

AT_LEAST_ONCE = {"exactly.once.support": "disabled"}
OFTEN = {"offset.flush.interval.ms": "20"}


@pytest.fixture
def often(bootstrap_servers: str) -> Iterator[TaskRunner]:
    """A worker whose tasks flush their source offsets often."""
    with TaskRunner(bootstrap_servers, OFTEN) as runner:
        yield runner


def _saved(bootstrap_servers: str, runner: TaskRunner, name: str) -> int | None:
    offsets = read_offsets(bootstrap_servers, runner.offsets_topic, name)
    return int((offsets[0][1] or {})["saved"]) if offsets else None


def test_records_without_transactions_are_acknowledged_before_their_offsets(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.started(name, topic, AT_LEAST_ONCE | {"limit": 500})
    wait_for(lambda: len(seen.committed) == 500, what="commit_record to be called when the brokers have a record")
    assert (seen.commits, _saved(bootstrap_servers, runner, name)) == (0, None), "nothing is flushed before its time"
    stop(task)
    assert (seen.commits, _saved(bootstrap_servers, runner, name)) == (1, 500)
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, 501))
    offsets = [metadata.offset for _, metadata in sorted(seen.metadata.items()) if metadata]
    assert offsets == list(range(500)), "no marker of a transaction stands between two polls"


def test_offsets_are_flushed_and_commit_is_called_at_every_interval(
    often: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = often.started(name, topic, AT_LEAST_ONCE | {"limit": 300})
    wait_for(lambda: _saved(bootstrap_servers, often, name) == 300)
    commits = seen.commits
    wait_for(lambda: seen.commits >= commits + 3)
    assert task.state is State.RUNNING
    task.pause()
    wait_for_state(task, State.PAUSED)
    task.resume()
    wait_for_state(task, State.RUNNING)
    stop(task)
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, 301))


def test_a_failed_flush_of_offsets_is_retried_and_does_not_fail_the_task(
    often: TaskRunner, bootstrap_servers: str, topic: str, name: str, caplog: pytest.LogCaptureFixture
):
    task, seen = often.task(name, topic, AT_LEAST_ONCE | {"messages.per.poll": 10})

    def unfit_at_first(_: Any, records: Sequence[SourceRecord]) -> list[SourceRecord]:
        if "were not flushed" in caplog.text:
            return list(records)
        return [
            SourceRecord(record.source_partition, {"saved": object()}, record.topic, value=record.value)
            for record in records
        ]

    seen.on_poll = unfit_at_first
    task.start()
    wait_for(lambda: _saved(bootstrap_servers, often, name) is not None)
    assert task.state is State.RUNNING, task.error
    stop(task)
    assert _saved(bootstrap_servers, often, name) == seen.last_seq
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, seen.last_seq + 1))


def _fail_at(seq: int) -> Any:
    def poll(_: Any, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        if records[0].source_offset["saved"] > seq:
            raise OSError("the source is gone")
        return records

    return poll


def test_a_task_that_fails_commits_the_offsets_of_written_records(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, AT_LEAST_ONCE)
    seen.on_poll = _fail_at(300)
    task.start()
    wait_for_state(task, State.FAILED)
    assert _saved(bootstrap_servers, runner, name) == 300
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, 301))


def _restarted(task: WorkerSourceTask, runner: TaskRunner) -> bool:
    return State.RESTARTING in runner.states.of(task)


def test_a_broker_that_is_away_for_long_costs_no_record(
    fault_proxy: FaultProxy, broker: EmbeddedBroker, topics: Topics, name: str
):
    """The last records may be written twice."""
    topic = topics.create(partitions=2)
    hasty = {"producer.request.timeout.ms": "300", "producer.delivery.timeout.ms": "800"}
    hasty |= {"producer.max.block.ms": "1500", "consumer.request.timeout.ms": "1000"}
    with TaskRunner(fault_proxy.address, OFTEN | hasty) as runner:
        task, seen = runner.started(name, topic, AT_LEAST_ONCE)
        wait_for(lambda: len(seen.committed) >= 1_000)
        # The broker has the batch, but its answer is held back.
        fault_proxy.on_response(ApiKey.PRODUCE, Act.HOLD).wait(120)
        fault_proxy.refuse()
        wait_for(lambda: _restarted(task, runner), what="the task to start again")
        fault_proxy.heal()
        committed = len(seen.committed)
        wait_for(lambda: len(seen.committed) >= committed + 1_000)
        stop(task)
    found = seqs(values(read_topic(broker.bootstrap_servers, topic)), name)
    assert set(found) == set(range(1, seen.last_seq + 1))
    # The flush at the end has no longer timeout than any other, and is not retried.
    saved = _saved(broker.bootstrap_servers, runner, name)
    assert saved is not None
    assert 0 < saved <= seen.last_seq
