"""A task waits before it polls while the heartbeat of the worker's group is due."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from fencepost import SourceRecord, SourceTask
from fencepost.kafka.precedence import Precedence
from fencepost.runtime.task import poll_loop
from tests.support.task_runner import TaskRunner, stop


def test_a_task_does_not_poll_while_a_heartbeat_is_due(
    runner: TaskRunner, topic: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    heartbeat, committed, polled_again = Precedence(3600), threading.Event(), threading.Event()
    monkeypatch.setattr(poll_loop, "HEARTBEAT", heartbeat)
    task, seen = runner.task(name, topic, {"messages.per.poll": 1})

    def on_poll(_: SourceTask, records: list[SourceRecord]) -> Sequence[SourceRecord]:
        if seen.polls == 1:
            heartbeat.announce(time.monotonic())
        else:
            polled_again.set()
        return records

    seen.on_poll = on_poll
    seen.on_commit = lambda _: committed.set()
    task.start()
    assert committed.wait(60)
    assert not polled_again.wait(0.1)
    heartbeat.announce(None)
    assert polled_again.wait(60)
    stop(task)
