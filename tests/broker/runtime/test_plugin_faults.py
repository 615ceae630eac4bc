"""Mistakes in a task's own code are reported in its state, in terms its author knows; other tasks run on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fencepost import RetriableError, SourceRecord
from fencepost.api.traces import format_trace
from fencepost.runtime.state import State
from fencepost.runtime.task.source_task import WorkerSourceTask
from tests.support.checker import read_topic, values
from tests.support.processes import wait_for
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, stop, wait_for_state
from tests.support.topics import unique


class _MuteError(Exception):
    def __str__(self) -> str:
        raise SystemExit(4)


def _recurse() -> Any:
    return _recurse()


def _raises(error: BaseException) -> Any:
    def misbehave() -> Any:
        raise error

    return misbehave


MISBEHAVIOURS = {
    "SystemExit(3)": _raises(SystemExit(3)),
    "KeyboardInterrupt": _raises(KeyboardInterrupt()),
    "GeneratorExit": _raises(GeneratorExit()),
    "StopIteration": _raises(StopIteration()),
    "_MuteError, which has no text": _raises(_MuteError()),
    "maximum recursion depth exceeded": _recurse,
    "out of memory": _raises(MemoryError("out of memory")),
    "returned a dict: it must return None, a SourceBatch, or an iterable of SourceRecord": dict,
    "SourceRecord(source_offset=...) was given an int: it takes a dict": lambda: [SourceRecord({"a": 1}, 7, "t")],
}
"""The error in the task's status, and the mistake of its poll."""


def test_any_failure_of_poll_appears_in_the_tasks_state(runner: TaskRunner, topic: str):
    tasks: dict[str, WorkerSourceTask] = {}
    for told, misbehave in MISBEHAVIOURS.items():
        tasks[told], seen = runner.task(unique("misbehaving"), topic)
        seen.on_poll = lambda _task, _records, misbehave=misbehave: misbehave()
    good = unique("good")
    well_behaved, seen_of_good = runner.task(good, topic, {"limit": 200}, stop_at_end=True)
    for task in (*tasks.values(), well_behaved):
        task.start()
    for told, task in tasks.items():
        wait_for_state(task, State.FAILED)
        assert task.join(60), f"{told}: the thread goes on"
        assert told in str(task.error) or told in repr(task.error)
        trace = format_trace(task.error)
        assert "sequence_source.py" in trace
        assert "fencepost/runtime" not in trace
    assert well_behaved.join(60)
    assert seen_of_good.committed == list(range(1, 201))


def test_records_of_a_generator_are_written_with_their_offsets(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str
):
    task, seen = runner.task(name, topic, {"limit": 300}, stop_at_end=True)

    def generated(_: Any, records: list[SourceRecord]) -> Iterator[SourceRecord]:
        yield from records

    seen.on_poll = generated  # type: ignore[assignment]  # what a poll may return
    task.start()
    assert task.join(60)
    assert seen.committed == list(range(1, 301))
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, 301))


def test_a_poll_that_fails_repeatedly_shows_in_the_state_until_it_works(runner: TaskRunner, topic: str, name: str):
    task, seen = runner.task(name, topic)
    works = threading.Event()

    def away(_: Any, records: list[SourceRecord]) -> list[SourceRecord]:
        if not works.is_set():
            raise RetriableError("the database restarts")
        return records

    seen.on_poll = away
    task.start()
    wait_for(lambda: (task.state, task.error is None) == (State.RUNNING, False), what="the failures are reported")
    assert str(task.error) == (
        f"poll() of task {name}-0 raised RetriableError 3 times in a row, and is called again: the database restarts"
    )
    assert f'File "{Path(__file__)}"' in format_trace(task.error)
    works.set()
    wait_for(lambda: task.error is None, what="the state tells that poll works again")
    assert task.state is State.RUNNING
    wait_for(lambda: bool(seen.committed))
    stop(task)
    reported = [(state, error is None) for of, state, error in runner.states.of_tasks if of == task.id]
    assert reported[0] == (State.RUNNING, True)
    assert (State.RUNNING, False) in reported
    assert reported[-2:] == [(State.RUNNING, True), (State.STOPPED, True)]


def test_an_exit_where_a_task_is_made_or_started_ends_in_its_state(runner: TaskRunner, topic: str, name: str):
    task, seen = runner.task(name, topic)
    seen.on_start = _raises_given(SystemExit(3))
    task.start()
    wait_for_state(task, State.FAILED)
    assert task.join(60)
    assert f"start() of task {name}-0 raised SystemExit(3)" in str(task.error)


def _raises_given(error: BaseException) -> Any:
    def misbehave(_: Any) -> None:
        raise error

    return misbehave
