"""All steps of a small polled batch run on the task's own thread, and none of them waits for another thread."""

from __future__ import annotations

import concurrent.futures
import queue
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from fencepost import SourceRecord, SourceTask
from fencepost.converters import StringConverter
from fencepost.kafka.transport.connection import Connection
from tests.support.processes import wait_for
from tests.support.sequence_source import SequenceTask
from tests.support.task_runner import TaskRunner, stop
from tests.support.topics import Topics

# Without a request before them, leaders and the producer's state are known.
_TRACED_POLL = 3
_STEPS = ["conversion", "ProduceRequest", "EndTxnRequest", "commit"]
_WAITS = {
    threading.Condition.wait,
    threading.Thread.start,
    threading.Thread.join,
    concurrent.futures.Future.result,
    queue.Queue.get,
    queue.Queue.put,
}


class Steps:
    """The steps of one batch that run on the thread that calls `begin`, and its waits for other threads."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.waits: list[str] = []
        self.thread: threading.Thread | None = None

    def begin(self) -> None:
        self.thread = threading.current_thread()
        sys.setprofile(self._see)

    @staticmethod
    def end() -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code in {wait.__code__ for wait in _WAITS}:
            self.waits.append(f"{code.co_qualname} called by {_callers(frame)}")
        elif code in {Connection.send.__code__, Connection.send_parts.__code__}:
            request = frame.f_locals["request"]
            self.found.append((request if isinstance(request, type) else type(request)).__name__)
        elif code is StringConverter.from_connect_data.__code__:
            self.found.append("conversion")
        elif code is SequenceTask.commit.__code__:
            self.found.append("commit")


def _callers(frame: FrameType) -> str:
    names = []
    caller = frame.f_back
    while caller is not None and len(names) < 4:
        names.append(caller.f_code.co_qualname)
        caller = caller.f_back
    return ", ".join(names)


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_step_of_a_polled_batch_runs_on_the_thread_of_its_task(
    runner: TaskRunner, topics: Topics, name: str, partitions: int
):
    task, seen = runner.task(name, topics.create(partitions=partitions), {"messages.per.poll": 20, "limit": 100})
    steps = Steps()

    def on_poll(_: SourceTask, records: list[SourceRecord]) -> Sequence[SourceRecord]:
        if seen.polls == _TRACED_POLL:
            steps.begin()
        return records

    def on_commit(_: SourceTask) -> None:
        if steps.thread is not None:
            steps.end()

    seen.on_poll, seen.on_commit = on_poll, on_commit
    task.start()
    wait_for(lambda: seen.commits >= _TRACED_POLL)
    stop(task)
    assert steps.thread is not None
    assert steps.thread.name == f"task-{task.id}"
    assert [step for step in dict.fromkeys(steps.found) if step in _STEPS] == _STEPS, steps.found
    assert steps.waits == []
