"""Errors while a task writes: no record of the transaction is visible, and no offset is committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fencepost import SourceRecord
from fencepost.api.errors import PluginError
from fencepost.kafka.errors import RecordTooLargeError
from fencepost.runtime.state import State
from tests.support.checker import read_offsets, read_topic, values
from tests.support.processes import wait_for
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, wait_for_state
from tests.support.topics import unique


@pytest.mark.parametrize(
    ("broken", "message"),
    [({"saved": object()}, "'saved' in the source offset is a value of type object"), ({1: 2}, "names must be text")],
    ids=["value", "name"],
)
def test_offsets_that_cannot_be_stored_fail_the_task_before_the_commit(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, *, broken: Any, message: str
):
    task, seen = runner.task(name, topic)

    def break_the_second(_: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        return records if seen.polls == 1 else [*records[:-1], replace(records[-1], source_offset=broken)]

    seen.on_poll = break_the_second
    task.start()
    wait_for_state(task, State.FAILED)
    assert isinstance(task.error, PluginError)
    assert message in str(task.error)
    assert task.join(120)
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, 101))
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == [({"task.id": f"{name}-0"}, {"saved": 100})]
    assert seen.committed == list(range(1, 101))


@pytest.mark.parametrize(("boundary", "committed"), [("poll", 100), ("interval", 0)])
def test_a_record_that_is_refused_fails_the_task_with_its_whole_transaction(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, *, boundary: str, committed: int
):
    """Earlier records of the same transaction are not visible either."""
    config = {"transaction.boundary": boundary, "producer.override.max.request.size": 20_000}
    task, seen = runner.task(name, topic, config)

    def enlarge(_: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        return records if seen.polls == 1 else [*records[:-1], replace(records[-1], value="x" * 30_000)]

    seen.on_poll = enlarge
    task.start()
    wait_for_state(task, State.FAILED)
    assert isinstance(task.error, RecordTooLargeError)
    assert task.join(120)
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, committed + 1))
    saved = [({"task.id": f"{name}-0"}, {"saved": 100})] if committed else []
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == saved


def test_tasks_of_one_worker_do_not_wait_for_each_other(runner: TaskRunner, topic: str):
    """One task hangs in poll() with an open transaction, while another one goes on."""
    slow, quick = unique("slow"), unique("quick")
    hanging, seen_of_hanging = runner.task(slow, topic, {"transaction.boundary": "interval"})

    def hang(source_task: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if seen_of_hanging.polls == 2:
            source_task._stopped.wait(60)
        return records

    seen_of_hanging.on_poll = hang
    hanging.start()
    wait_for(lambda: seen_of_hanging.polls == 2)
    task, seen = runner.started(quick, unique("topic"), {"limit": 1000}, stop_at_end=True)
    assert task.join(60)
    assert seen.committed == list(range(1, 1001))
    assert seen_of_hanging.committed == []
