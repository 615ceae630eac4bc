from __future__ import annotations

import threading
from typing import Any

import pytest

from fencepost import SourceTask
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.task_control import TaskControl
from fencepost.runtime.task_instance import TaskInstance


class _Task(SourceTask):
    def __init__(self) -> None:
        self.stops = 0
        self.may_stop = threading.Event()

    def start(self, config: Any) -> None:
        raise AssertionError(config)

    def poll(self) -> None:
        raise AssertionError

    def stop(self) -> None:
        assert self.may_stop.wait(120)
        self.stops += 1


class _Counting(_Task):
    def commit_record(self, record: Any, metadata: Any) -> None:
        raise AssertionError((record, metadata))


def test_records_are_kept_only_for_a_task_that_wants_to_hear_of_them():
    assert not TaskInstance(ConnectorTaskId("c", 0), _Task()).keeps_records
    assert TaskInstance(ConnectorTaskId("c", 0), _Counting()).keeps_records


class _Lost(_Task):
    calls = 0

    def lag(self) -> float:
        self.calls += 1
        raise RuntimeError("who knows")


class _Vague(_Lost):
    def lag(self) -> float:
        self.calls += 1
        return "a lot"  # type: ignore[return-value]  # what a connector may do


@pytest.mark.parametrize("task", [_Lost(), _Vague()], ids=lambda task: type(task).__name__)
def test_a_task_that_cannot_tell_its_lag_runs_on_and_is_not_asked_again(caplog: pytest.LogCaptureFixture, task: _Lost):
    instance = TaskInstance(ConnectorTaskId("c", 0), task)
    assert [instance.lag(), instance.lag()] == [None, None]
    assert task.calls == 1
    assert [record.message for record in caplog.records] == ["lag() of task c-0 failed, and is not called again"]


def test_a_task_is_stopped_once_and_everyone_waits_until_it_is():
    task = _Task()
    instance = TaskInstance(ConnectorTaskId("c", 0), task)
    seen: list[int] = []

    def stop() -> None:
        instance.stop()
        seen.append(task.stops)

    threads = [threading.Thread(target=stop) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert seen == []
    task.may_stop.set()
    for thread in threads:
        thread.join()
    assert seen == [1, 1, 1]


def test_whoever_waits_for_a_paused_task_hears_of_its_end():
    control = TaskControl(paused=True)
    waiting = threading.Thread(target=control.wait_until_resumed)
    waiting.start()
    control.stop()
    waiting.join(120)
    assert not waiting.is_alive()
    control.wait(3600)
    assert control.stopping
    assert control.paused
