"""A source task on a real broker, from its start to its end; the cases follow KIP-618 and Connect."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fencepost import SourceRecord
from fencepost.runtime.state import State
from tests.support.checker import Record, read_offsets, read_topic, values
from tests.support.processes import wait_for
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import Topics, unique


def _saved(bootstrap_servers: str, runner: TaskRunner, name: str) -> int:
    ((partition, offset),) = read_offsets(bootstrap_servers, runner.offsets_topic, name)
    assert partition == {"task.id": f"{name}-0"}
    assert offset is not None
    return int(offset["saved"])


def _found(bootstrap_servers: str, topic: str, name: str) -> list[int]:
    return seqs(values(read_topic(bootstrap_servers, topic)), name)


def test_the_poll_boundary_commits_each_poll_with_its_offset(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, name: str
):
    topic = topics.create(partitions=3)
    task, seen = runner.started(name, topic)
    wait_for(lambda: len(seen.committed) >= 300)
    stop(task)
    count = seen.last_seq
    assert sorted(_found(bootstrap_servers, topic, name)) == list(range(1, count + 1))
    assert _saved(bootstrap_servers, runner, name) == count
    assert seen.committed == list(range(1, count + 1))
    assert seen.commits == seen.polls + 1, "one for each poll and a final one"
    assert task.state is State.STOPPED


def test_the_connectors_interval_overrides_the_workers(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, name: str
):
    topic = topics.create(partitions=3)
    config = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": 200, "messages.per.poll": 10}
    task, seen = runner.started(name, topic, config)
    wait_for(lambda: seen.commits >= 2)
    stop(task)
    assert sorted(_found(bootstrap_servers, topic, name)) == list(range(1, seen.last_seq + 1))
    assert _saved(bootstrap_servers, runner, name) == seen.last_seq
    assert seen.commits < seen.polls / 2, "a transaction holds many polls"


def test_without_its_own_interval_the_connector_uses_the_workers(bootstrap_servers: str, topic: str, name: str):
    config = {"transaction.boundary": "interval", "messages.per.poll": 10}
    with TaskRunner(bootstrap_servers, {"offset.flush.interval.ms": "200"}) as runner:
        task, seen = runner.started(name, topic, config)
        wait_for(lambda: seen.commits >= 2)
        stop(task)
    assert _found(bootstrap_servers, topic, name) == list(range(1, seen.last_seq + 1))
    assert seen.commits < seen.polls / 2, "a transaction holds many polls"


def _boundaries(limit: int) -> list[int]:
    """The numbers 1, 2, 3, 5, 8, 13, ... up to a limit."""
    numbers = [1, 2]
    while numbers[-1] + numbers[-2] <= limit:
        numbers.append(numbers[-1] + numbers[-2])
    return numbers


def test_the_connector_boundary_also_commits_offsets_of_aborted_records(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, name: str
):
    """The task aborts each transaction that ends with an even number."""
    topic = topics.create()
    boundaries = _boundaries(250)
    config = {"transaction.boundary": "connector", "limit": boundaries[-1]}
    task, seen = runner.task(name, topic, config, stop_at_end=True)

    def ask(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        context = source_task.context.transaction_context
        for record in records:
            seq = record.source_offset["saved"]
            if seq in boundaries:
                (context.commit_transaction if seq % 2 else context.abort_transaction)(record)
        return records

    seen.on_poll = ask
    task.start()
    assert task.join(120)
    expected: list[int] = []
    for first, last in zip([0, *boundaries], boundaries, strict=False):
        if last % 2:
            expected += range(first + 1, last + 1)
    assert _found(bootstrap_servers, topic, name) == expected
    saved = [record.value for record in read_topic(bootstrap_servers, runner.offsets_topic)]
    assert saved == [b'{"saved":%d}' % seq for seq in boundaries]
    assert seen.committed == list(range(1, boundaries[-1] + 1)), "commit_record is called for aborted records as well"


@pytest.mark.parametrize("requests", [("commit", "abort"), ("abort", "commit")], ids="-then-".join)
def test_a_request_for_the_last_record_comes_before_the_batchs(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, requests: tuple[str, str]
):
    for_record, for_batch = requests
    task, seen = runner.task(name, topic, {"transaction.boundary": "connector", "limit": 100}, stop_at_end=True)

    def ask(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if records:
            context = source_task.context.transaction_context
            getattr(context, f"{for_record}_transaction")(records[-1])
            getattr(context, f"{for_batch}_transaction")()
        return records

    seen.on_poll = ask
    task.start()
    assert task.join(120)
    committed = list(range(1, 101)) if for_record == "commit" else []
    assert _found(bootstrap_servers, topic, name) == committed
    assert _saved(bootstrap_servers, runner, name) == 100
    assert len(read_topic(bootstrap_servers, runner.offsets_topic)) == 1
    assert task.state is State.STOPPED


def test_a_transaction_the_task_did_not_end_is_not_committed_at_stop(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    config = {"transaction.boundary": "connector", "limit": 250}
    task, seen = runner.task(name, topic, config)

    def commit_first(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if records and records[0].source_offset["saved"] == 1:
            source_task.context.transaction_context.commit_transaction()
        return records

    seen.on_poll = commit_first
    task.start()
    wait_for(lambda: seen.polls > 5)
    stop(task)
    assert _found(bootstrap_servers, topic, name) == list(range(1, 101))
    assert _saved(bootstrap_servers, runner, name) == 100

    def commit_last(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if records and records[-1].source_offset["saved"] == 250:
            source_task.context.transaction_context.commit_transaction()
        return records

    again, seen = runner.task(name, topic, config, stop_at_end=True)
    seen.on_poll = commit_last
    again.start()
    assert again.join(120)
    assert _found(bootstrap_servers, topic, name) == list(range(1, 251))


def test_a_pause_in_mid_transaction_leaves_nothing_open_and_loses_nothing(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, {"transaction.boundary": "connector", "limit": 300})
    task.start()
    wait_for(lambda: seen.last_seq == 300)
    task.pause()
    wait_for_state(task, State.PAUSED)
    stop_marker = read_topic(bootstrap_servers, topic, isolation="read_uncommitted")
    assert len(stop_marker) == 300
    assert _found(bootstrap_servers, topic, name) == []

    def commit(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        source_task.context.transaction_context.commit_transaction()
        return records

    seen.on_poll = commit
    task.resume()
    wait_for(lambda: _found(bootstrap_servers, topic, name) == list(range(1, 301)))
    assert seen.starts == 2


@pytest.mark.parametrize("which", ["record", "batch"])
def test_asking_for_both_commit_and_abort_fails_the_task(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, which: str
):
    task, seen = runner.task(name, topic, {"transaction.boundary": "connector"})

    def ask(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        context = source_task.context.transaction_context
        arguments = records[-1:] if which == "record" else []
        context.commit_transaction(*arguments)
        context.abort_transaction(*arguments)
        return records

    seen.on_poll = ask
    task.start()
    wait_for_state(task, State.FAILED)
    assert f"same {which}" in str(task.error)
    assert _found(bootstrap_servers, topic, name) == []


def test_other_boundaries_have_no_transaction_context(runner: TaskRunner, topic: str, name: str):
    task, seen = runner.task(name, topic, {"limit": 1}, stop_at_end=True)
    contexts: list[Any] = []
    seen.on_start = lambda source_task: contexts.append(source_task.context.transaction_context)
    task.start()
    assert task.join(120)
    assert contexts == [None]


def test_a_task_that_produces_to_its_own_offsets_topic_fails(runner: TaskRunner, bootstrap_servers: str, name: str):
    task, _ = runner.started(name, runner.offsets_topic)
    wait_for_state(task, State.FAILED)
    assert f"a record for topic {runner.offsets_topic}, which holds its own source offsets" in str(task.error)
    assert read_topic(bootstrap_servers, runner.offsets_topic, isolation="read_uncommitted") == []


@pytest.mark.parametrize("delivery", ["requested", "disabled"])
@pytest.mark.parametrize("store", ["offset", "config"])
def test_a_task_that_produces_to_a_topic_with_workers_state_fails(
    bootstrap_servers: str, name: str, delivery: str, store: str
):
    configs = unique("configs")
    # If the connector has its own offsets topic, its task does not write to the worker's.
    config = {"offsets.storage.topic": unique("own"), "exactly.once.support": delivery}
    with TaskRunner(bootstrap_servers, {"config.storage.topic": configs}) as runner:
        topic = configs if store == "config" else runner.offsets_topic
        task, _ = runner.started(name, topic, config)
        wait_for_state(task, State.FAILED)
    assert f"Records for topic {topic} are refused, because the workers keep their" in str(task.error)
    assert f"({store}.storage.topic)" in str(task.error)


def test_each_record_is_reported_in_order_after_the_commit_and_then_the_commit(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, {"limit": 20, "messages.per.poll": 10}, stop_at_end=True)
    visible: list[int] = []
    seen.on_commit = lambda _: visible.append(len(_found(bootstrap_servers, topic, name)))
    task.start()
    assert task.join(60)
    expected = [("commit_record", seq) for seq in range(1, 11)] + [("commit", 10)]
    expected += [("commit_record", seq) for seq in range(11, 21)] + [("commit", 20)]
    assert seen.calls[: len(expected)] == expected
    assert all(call == ("commit", 20) for call in seen.calls[len(expected) :])
    assert visible[:2] == [10, 20], "what is reported is committed"
    found: list[Record] = read_topic(bootstrap_servers, topic)
    for record, (seq, metadata) in zip(found, sorted(seen.metadata.items()), strict=True):
        assert metadata is not None
        assert (metadata.topic, metadata.partition, metadata.offset) == (topic, record.partition, record.offset)
        assert metadata.timestamp == record.timestamp
        assert seqs([record.value], name) == [seq]


def test_callback_errors_are_logged_and_the_task_keeps_running(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, caplog: pytest.LogCaptureFixture
):
    task, seen = runner.task(name, topic, {"limit": 300}, stop_at_end=True)

    def fail(_: Any) -> None:
        raise RuntimeError("the source is gone")

    seen.on_commit = fail
    task.start()
    assert task.join(120)
    assert task.state is State.STOPPED
    assert _found(bootstrap_servers, topic, name) == list(range(1, 301))
    assert f"commit() of task {name}-0 failed" in caplog.text


def test_a_task_resumes_from_the_last_commit(runner: TaskRunner, bootstrap_servers: str, topic: str, name: str):
    for limit in (150, 400):
        task, _ = runner.started(name, topic, {"limit": limit}, stop_at_end=True)
        assert task.join(120)
    assert _found(bootstrap_servers, topic, name) == list(range(1, 401))
    assert runner.states.of(task) == [State.RUNNING, State.STOPPED] * 2


def test_metrics_show_a_tasks_commits(runner: TaskRunner, topic: str, name: str):
    task, _ = runner.started(name, topic, {"limit": 250}, stop_at_end=True)
    assert task.join(120)
    registry = runner.worker.metrics.registry

    def value(metric: str) -> float:
        found = registry.get_sample_value(metric, {"connector": name, "task": "0"})
        assert found is not None, metric
        return found

    source, commits = "kafka_connect_source_task", "kafka_connect_connector_task_offset_commit"
    assert value(f"{source}_source_record_poll_total") == value(f"{source}_source_record_write_total") == 250
    assert [value(f"{source}_transaction_size_{which}") for which in ("min", "max")] == [50, 100]
    assert value(f"{source}_source_record_active_count") == 0
    assert value("fencepost_task_commit_latency_seconds_count") == 3
    assert 0 < value(f"{commits}_avg_time_ms") <= value(f"{commits}_max_time_ms")
    assert [value(f"{commits}_{outcome}_percentage") for outcome in ("success", "failure")] == [1, 0]


def test_topics_are_created_as_the_connector_says(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, name: str
):
    topic = unique("topic")
    config = {
        "limit": 100,
        "topic.creation.default.partitions": 3,
        "topic.creation.default.replication.factor": 1,
        "topic.creation.default.retention.ms": 123456,
    }
    task, _ = runner.started(name, topic, config, stop_at_end=True)
    assert task.join(120)
    assert topics.partitions(topic) == 3
    assert topics.config(topic)["retention.ms"] == "123456"
    assert sorted(_found(bootstrap_servers, topic, name)) == list(range(1, 101))


def test_commits_name_the_task_and_a_run_that_changes_with_each_read(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    """So a task can take over a source partition from another one by reading its offset, and give it back."""
    for limit in (20, 40):
        task, seen = runner.task(name, topic, {"messages.per.poll": 10, "limit": limit}, stop_at_end=True)

        def read_again(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
            if source_task.seq == 20:
                source_task.context.offset_reader.offset({"task.id": "another"})
            return records

        seen.on_poll = read_again
        task.start()
        assert task.join(120)
    headers = [dict(record.headers) for record in read_topic(bootstrap_servers, runner.offsets_topic)]
    runs, tasks = zip(*((commit["fencepost.committed.by"] or b"").split() for commit in headers), strict=True)
    assert set(tasks) == {f"{runner.worker.config.group_id}-{name}-0".encode()}
    assert len(runs) == 4
    assert [one == next_one for one, next_one in itertools.pairwise(runs)] == [False, False, True]
