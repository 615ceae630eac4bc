"""Tasks under both transaction versions, which differ in how the brokers protect a transaction."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fencepost import SourceRecord
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.errors import ProducerFencedError
from fencepost.kafka.producer.transaction import TransactionVersion
from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from tests.support.checker import read_offsets, read_topic, values
from tests.support.processes import wait_for
from tests.support.sequence_source import Seen, seqs
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import Topics, unique


@pytest.fixture(params=TransactionVersion, ids=lambda version: version.name)
def any_broker(request: pytest.FixtureRequest) -> EmbeddedBroker:
    """A broker of each transaction version."""
    name = "broker" if request.param is TransactionVersion.V2 else "tv1_broker"
    broker: EmbeddedBroker = request.getfixturevalue(name)
    return broker


def test_commits_and_aborts_follow_each_other_exactly_once(any_broker: EmbeddedBroker):
    """Every third batch is aborted."""
    servers, name = any_broker.bootstrap_servers, unique("connector")
    topic = Topics(servers).create(partitions=2)
    with TaskRunner(servers) as runner:
        config = {"transaction.boundary": "connector", "limit": 3000}
        task, seen = runner.task(name, topic, config, stop_at_end=True)

        def ask(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
            context = source_task.context.transaction_context
            (context.commit_transaction if seen.polls % 3 else context.abort_transaction)()
            return records

        seen.on_poll = ask
        task.start()
        assert task.join(60)
        assert task.state is State.STOPPED
        expected = [seq for seq in range(1, 3001) if (seq - 1) // 100 % 3 != 2]
        assert sorted(seqs(values(read_topic(servers, topic)), name)) == expected
        assert read_offsets(servers, runner.offsets_topic, name) == [({"task.id": f"{name}-0"}, {"saved": 3000})]


def _hanging(runner: TaskRunner, name: str, topic: str) -> tuple[WorkerSourceTask, Seen, threading.Event]:
    """A task that hangs in its second poll, with a transaction open, until the event is set."""
    task, seen = runner.task(name, topic, {"transaction.boundary": "interval"})
    hanging, go_on = threading.Event(), threading.Event()

    def hang(_: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if seen.starts == 1 and seen.polls == 2:
            hanging.set()
            assert go_on.wait(60)
        return records

    seen.on_poll = hang
    task.start()
    assert hanging.wait(120)
    return task, seen, go_on


def test_a_task_abandoned_after_its_successor_started_does_not_affect_it(any_broker: EmbeddedBroker):
    """The first instance hangs with an open transaction while the second one takes over.

    Then the first one is abandoned.
    """
    servers, name, group = any_broker.bootstrap_servers, unique("connector"), unique("group")
    topic = Topics(servers).create()
    with TaskRunner(servers, group=group) as first_runner, TaskRunner(servers, group=group) as second_runner:
        first, seen, go_on = _hanging(first_runner, name, topic)
        second, _ = second_runner.started(name, topic)
        wait_for(lambda: len(seen.committed) > 200)
        first.cancel()
        go_on.set()
        assert first.join(120)
        committed = len(seen.committed)
        wait_for(lambda: len(seen.committed) > committed + 200)
        stop(second)
        assert second.state is State.STOPPED
    found = seqs(values(read_topic(servers, topic)), name)
    assert found == list(range(1, len(found) + 1))


def test_a_zombie_that_wakes_up_writes_nothing_and_says_that_it_was_fenced(any_broker: EmbeddedBroker):
    """The first instance hangs with an open transaction while the second one takes over. Then the first one goes on."""
    servers, name, group = any_broker.bootstrap_servers, unique("connector"), unique("group")
    topic = Topics(servers).create()
    with TaskRunner(servers, group=group) as first_runner, TaskRunner(servers, group=group) as second_runner:
        first, seen, go_on = _hanging(first_runner, name, topic)
        second, _ = second_runner.started(name, topic)
        wait_for(lambda: len(seen.committed) > 200)
        go_on.set()
        wait_for_state(first, State.FAILED)
        assert isinstance(first.error, ProducerFencedError)
        stop(second)
        assert second.state is State.STOPPED
    found = seqs(values(read_topic(servers, topic)), name)
    assert found == list(range(1, len(found) + 1))


def test_a_zombies_new_transaction_does_not_abort_its_successors(any_broker: EmbeddedBroker):
    """Under version 1 a transaction begins with InitProducerId, which can fence a newer owner."""
    servers, name, group = any_broker.bootstrap_servers, unique("connector"), unique("group")
    topic = Topics(servers).create()
    with TaskRunner(servers, group=group) as first_runner, TaskRunner(servers, group=group) as second_runner:
        first, seen = first_runner.task(name, topic)
        hanging, wake_up, written, go_on = (threading.Event() for _ in range(4))

        def hang(_: Any, records: list[SourceRecord]) -> list[SourceRecord]:
            if seen.starts == 1 and seen.polls == 2:
                hanging.set()
                assert wake_up.wait(60)
            elif (
                seen.starts == 2 and hanging.is_set() and len(records) == 7 and records[0].source_offset["saved"] > 107
            ):
                written.set()
                assert go_on.wait(60)
            return records

        seen.on_poll = hang
        first.start()
        assert hanging.wait(120)
        second, _ = second_runner.started(
            name, topic, {"messages.per.poll": 7, "limit": 7000, "transaction.boundary": "interval"}
        )
        assert written.wait(120)
        wake_up.set()
        wait_for_state(first, State.FAILED)
        assert isinstance(first.error, ProducerFencedError)
        go_on.set()
        wait_for(lambda: seen.last_seq == 7000)
        stop(second)
        assert second.state is State.STOPPED, second.error
    assert seqs(values(read_topic(servers, topic)), name) == list(range(1, 7001))
