"""A worker starts only a few tasks at a time, however many a connector has."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fencepost import SourceTask
from fencepost.runtime.state import State
from fencepost.runtime.task.admission import Admission
from fencepost.runtime.turns import AT_ONCE, Turn, Turns
from tests.support.processes import wait_for
from tests.support.task_runner import TaskRunner, wait_for_state
from tests.support.topics import unique

TASKS = 2 * AT_ONCE + 1
FOR_EVER_S = 3600.0


class ObservedTurns(Turns):
    """Turns that never count as hanging, and that record what was asked for."""

    def __init__(self) -> None:
        super().__init__(patience_s=FOR_EVER_S)
        self.asked: list[Turn] = []

    def ask(self, on_given: Callable[[], None]) -> Turn:
        turn = super().ask(on_given)
        self.asked.append(turn)
        return turn


class Starts:
    """Counts the starts that are in progress, and blocks each start until `let_go`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._let_go = False
        self.in_progress = self.most = 0

    def __call__(self, task: SourceTask) -> None:
        del task
        with self._changed:
            self.in_progress += 1
            self.most = max(self.most, self.in_progress)
            self._changed.wait_for(lambda: self._let_go)
            self.in_progress -= 1

    def let_go(self) -> None:
        with self._changed:
            self._let_go = True
            self._changed.notify_all()


def test_no_more_tasks_of_a_worker_start_at_once_than_there_are_turns(
    bootstrap_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, starts = ObservedTurns(), Starts()
    monkeypatch.setattr("fencepost.runtime.worker.Admission", lambda: Admission(turns))
    with TaskRunner(bootstrap_servers) as runner:
        tasks = []
        for _ in range(TASKS):
            task, seen = runner.task(unique("starts"), topic)
            seen.on_start = starts
            tasks.append(task)
        try:
            for task in tasks:
                task.start()
            # All tasks have asked for a turn, and those that have one are starting.
            wait_for(lambda: len(turns.asked) == TASKS)
            wait_for(lambda: starts.in_progress == sum(turn.given for turn in turns.asked))
            assert starts.in_progress == AT_ONCE
        finally:
            starts.let_go()
        for task in tasks:
            wait_for_state(task, State.RUNNING)
    assert starts.most == AT_ONCE
