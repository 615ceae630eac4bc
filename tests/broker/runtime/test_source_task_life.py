"""How a source task starts, waits, stops, fails and restarts, on a real broker."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from fencepost import DataError, RetriableError, SourceRecord
from fencepost.config.ids import ConnectorTaskId
from fencepost.kafka.errors import ProducerFencedError, TransactionExpiredError
from fencepost.runtime.state import ReplacedError, State
from tests.support.checker import read_offsets, read_topic, values
from tests.support.processes import wait_for
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import unique


def _found(bootstrap_servers: str, topic: str, name: str) -> list[int]:
    return seqs(values(read_topic(bootstrap_servers, topic)), name)


def test_a_task_that_starts_paused_does_not_touch_the_source(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.started(name, topic, {"limit": 100}, paused=True)
    wait_for_state(task, State.PAUSED)
    assert (seen.starts, seen.polls) == (0, 0)
    task.resume()
    wait_for(lambda: len(seen.committed) == 100)
    stop(task)
    assert runner.states.of(task) == [State.PAUSED, State.RUNNING, State.STOPPED]
    assert _found(bootstrap_servers, topic, name) == list(range(1, 101))


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_a_pause_commits_at_once(runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, boundary: str):
    task, seen = runner.started(name, topic, {"transaction.boundary": boundary})
    wait_for(lambda: seen.polls >= 3)
    task.pause()
    wait_for_state(task, State.PAUSED)
    polls = seen.polls
    assert _found(bootstrap_servers, topic, name) == list(range(1, polls * 100 + 1))
    stop(task)
    assert seen.polls == polls
    assert seen.commits == (polls if boundary == "poll" else 0) + 2, "for the pause, and a final one"
    assert runner.states.of(task) == [State.RUNNING, State.PAUSED, State.STOPPED]


def test_a_task_that_is_stopped_while_it_starts_is_not_polled(runner: TaskRunner, topic: str, name: str):
    task, seen = runner.task(name, topic)
    starting, go_on = threading.Event(), threading.Event()

    def start_slowly(_: Any) -> None:
        starting.set()
        assert go_on.wait(120)

    seen.on_start = start_slowly
    task.start()
    assert starting.wait(120)
    task.stop()
    go_on.set()
    assert task.join(120)
    assert (seen.polls, seen.calls, seen.stops) == (0, [("commit", 0)], 1)
    assert task.state is State.STOPPED


def test_a_waiting_poll_is_ended_by_stop(runner: TaskRunner, bootstrap_servers: str, topic: str, name: str):
    task, seen = runner.task(name, topic, {"limit": 200})
    waiting = threading.Event()

    def wait_at_the_end(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if not records:
            waiting.set()
            assert source_task._stopped.wait(120)
        return records

    seen.on_poll = wait_at_the_end
    task.start()
    assert waiting.wait(120)
    stop(task)
    assert seen.stops == 1
    assert _found(bootstrap_servers, topic, name) == list(range(1, 201))


def test_an_error_of_poll_fails_the_task_and_nothing_uncommitted_is_visible(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, {"transaction.boundary": "interval"})

    def fail_on_the_third(_: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if seen.polls == 3:
            raise RuntimeError("the source is gone")
        return records

    seen.on_poll = fail_on_the_third
    task.start()
    wait_for_state(task, State.FAILED)
    assert task.join(120)
    assert "the source is gone" in str(task.error)
    assert seen.calls == []
    assert seen.stops == 1
    assert len(read_topic(bootstrap_servers, topic, isolation="read_uncommitted")) == 200
    assert _found(bootstrap_servers, topic, name) == []
    # The last stable offset is past the aborted records, so consumers are not held up.
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == []


def test_an_error_of_poll_after_stop_is_not_a_failure(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, {"transaction.boundary": "interval"})
    polled = threading.Event()

    def fail_when_stopped(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if seen.polls < 2:
            return records
        polled.set()
        assert source_task._stopped.wait(120)
        raise RuntimeError("the connection was closed")

    seen.on_poll = fail_when_stopped
    task.start()
    assert polled.wait(120)
    stop(task)
    assert (task.state, task.error, seen.calls) == (State.STOPPED, None, [])
    assert _found(bootstrap_servers, topic, name) == []


def test_a_retriable_error_of_poll_is_logged_once_and_polled_again(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, caplog: pytest.LogCaptureFixture
):
    task, seen = runner.task(name, topic, {"limit": 200}, stop_at_end=True)

    def fail_first(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if seen.polls <= 2:
            source_task.seq = 0
            raise RetriableError("busy")
        return records

    seen.on_poll = fail_first
    task.start()
    assert task.join(120)
    assert runner.states.of(task) == [State.RUNNING, State.STOPPED]
    assert _found(bootstrap_servers, topic, name) == list(range(1, 201))
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [warning for warning in warnings if "poll() of" in warning] == [
        f"poll() of task {name}-0 failed and is called again for 152 s: busy"
    ]


def test_a_task_with_a_retriable_start_failure_restarts(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, {"limit": 100}, stop_at_end=True)

    def fail_first(_: Any) -> None:
        if seen.starts == 1:
            raise RetriableError("the database restarts")

    seen.on_start = fail_first
    task.start()
    assert task.join(120)
    assert runner.states.of(task) == [State.RESTARTING, State.RUNNING, State.STOPPED]
    assert _found(bootstrap_servers, topic, name) == list(range(1, 101))


def test_a_task_with_a_fatal_start_failure_fails(runner: TaskRunner, topic: str, name: str):
    task, seen = runner.task(name, topic)

    def fail(_: Any) -> None:
        raise DataError("the table has no key")

    seen.on_start = fail
    task.start()
    wait_for_state(task, State.FAILED)
    assert task.join(120)
    assert (seen.polls, seen.calls, seen.stops) == (0, [], 1)


class _Checks:
    """Raises the given errors, and records its calls."""

    def __init__(self, before: Exception | None = None, after: Exception | None = None) -> None:
        self.before, self.after = before, after
        self.calls: list[str] = []

    def before_ownership(self, task: ConnectorTaskId) -> None:
        self.calls.append(f"before {task.task}")
        if self.before:
            raise self.before

    def after_ownership(self, task: ConnectorTaskId) -> None:
        self.calls.append(f"after {task.task}")
        if self.after:
            raise self.after


@pytest.mark.parametrize(
    ("checks", "calls", "logged"),
    [
        (_Checks(before=DataError("fencing failed")), ["before 0"], "ERROR"),
        (_Checks(after=ReplacedError("newer task configs exist")), ["before 0", "after 0"], "WARNING"),
    ],
    ids=["before", "after"],
)
def test_a_check_that_fails_keeps_the_task_from_starting(
    runner: TaskRunner,
    topic: str,
    name: str,
    caplog: pytest.LogCaptureFixture,
    *,
    checks: _Checks,
    calls: list[str],
    logged: str,
):
    """A task that is fenced by a newer one fails without an error in the log."""
    task, seen = runner.started(name, topic, checks=checks)
    wait_for_state(task, State.FAILED)
    assert checks.calls == calls
    assert seen.starts == 0
    assert [record.levelname for record in caplog.records if str(task.error) in record.getMessage()] == [logged]


def test_a_second_instance_of_a_task_fences_the_first(bootstrap_servers: str, topic: str, name: str):
    group = unique("group")
    with (
        TaskRunner(bootstrap_servers, group=group) as first_runner,
        TaskRunner(bootstrap_servers, group=group) as second_runner,
    ):
        first, seen = first_runner.started(name, topic)
        wait_for(lambda: len(seen.committed) >= 200)
        second, _ = second_runner.started(name, topic)
        wait_for_state(first, State.FAILED)
        assert isinstance(first.error, ProducerFencedError)
        assert "newer instance" in str(first.error)
        committed = len(seen.committed)
        wait_for(lambda: len(seen.committed) > committed + 200)
        stop(second)
        assert second.state is State.STOPPED
        found = _found(bootstrap_servers, topic, name)
        assert found == list(range(1, len(found) + 1))
        offsets = read_offsets(bootstrap_servers, first_runner.offsets_topic, name)
        assert offsets == [({"task.id": f"{name}-0"}, {"saved": len(found)})]


def test_a_transaction_that_expires_fails_the_task_with_advice(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    config = {"transaction.boundary": "interval", "producer.override.transaction.timeout.ms": 1000}
    task, seen = runner.task(name, topic, config)

    def wait_for_expiry(_: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if seen.polls == 2:
            # Aborted transactions hold up no consumer, neither of the offsets topic nor of the records' topic.
            wait_for(lambda: _is_settled(bootstrap_servers, topic))
        return records

    seen.on_poll = wait_for_expiry
    task.start()
    wait_for_state(task, State.FAILED)
    assert isinstance(task.error, TransactionExpiredError)
    remedies = (
        "producer.override.batch.size",
        "producer.override.transaction.timeout.ms",
        "transaction.boundary.interval.ms",
        "transaction.boundary=poll",
        "make the source's batches smaller",
    )
    assert [remedy for remedy in remedies if remedy not in str(task.error)] == []
    assert task.join(120)
    again, seen = runner.task(name, topic, {"limit": 300}, stop_at_end=True)
    seen.on_poll = lambda _, records: records
    again.start()
    assert again.join(120)
    assert _found(bootstrap_servers, topic, name) == list(range(1, 301))


def _is_settled(bootstrap_servers: str, topic: str) -> bool:
    """Whether a topic of one partition has no open transaction."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    where = TopicPartition(topic, 0)
    ends = [
        admin.list_offsets({where: OffsetSpec.latest()}, isolation_level=level)[where].result(120).offset
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    ]
    return ends[0] == ends[1] > 0


def test_a_cancelled_task_is_fenced_and_leaves_nothing_open(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, {"transaction.boundary": "interval"})
    hanging, go_on = threading.Event(), threading.Event()

    def hang_on_the_second(_: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if seen.polls == 2:
            hanging.set()
            assert go_on.wait(120)
        return records

    seen.on_poll = hang_on_the_second
    task.start()
    assert hanging.wait(120)
    assert not _is_settled(bootstrap_servers, topic)
    task.cancel()
    # Although poll() still hangs, consumers of the topic are no longer held up.
    wait_for(lambda: _is_settled(bootstrap_servers, topic))
    go_on.set()
    assert task.join(120)
    assert task.state is State.STOPPED
    assert (seen.polls, seen.calls) == (2, [])
    assert len(read_topic(bootstrap_servers, topic, isolation="read_uncommitted")) == 100
    assert _found(bootstrap_servers, topic, name) == []


def test_the_worker_gives_up_on_tasks_that_do_not_stop_in_time(bootstrap_servers: str, topic: str, name: str):
    with TaskRunner(bootstrap_servers, {"task.shutdown.graceful.timeout.ms": "100"}) as runner:
        task, seen = runner.task(name, topic)
        hanging, go_on = threading.Event(), threading.Event()

        def hang(_: Any, records: list[SourceRecord]) -> list[SourceRecord]:
            hanging.set()
            assert go_on.wait(120)
            return records

        seen.on_poll = hang
        task.start()
        assert hanging.wait(120)
        assert runner.worker.stop_tasks([task]) == [task]
        go_on.set()
        assert task.join(120)
        assert _found(bootstrap_servers, topic, name) == []


def test_a_task_s_own_metrics_are_shown_until_it_stops(runner: TaskRunner, name: str, topic: str):
    task, seen = runner.task(name, topic)

    def add(source_task: Any) -> None:
        source_task.context.plugin_metrics.add_metric("answer", "The answer", lambda: 42)

    def value() -> float | None:
        return runner.worker.metrics.registry.get_sample_value(
            "kafka_connect_plugins_answer", {"connector": name, "task": "0"}
        )

    seen.on_start = add
    task.start()
    wait_for_state(task, State.RUNNING)
    assert value() == 42
    stop(task)
    assert value() is None
