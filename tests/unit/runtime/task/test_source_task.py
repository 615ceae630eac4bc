"""When a thread of a task ends, the task's state says so."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from fencepost import RetriableError
from fencepost.api.errors import PluginError
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.restart_config import RestartConfig
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.state import State
from fencepost.runtime.task.admission import Admission
from fencepost.runtime.task.run import TaskParts
from fencepost.runtime.task.source_task import WorkerSourceTask
from tests.support.task_runner import States


@pytest.fixture
def interval() -> Iterator[float]:
    """Keep the interpreter's switch interval, and restore it at the end."""
    before = sys.getswitchinterval()
    yield before
    sys.setswitchinterval(before)


@dataclass
class _Parts:
    """The parts that a task needs before its first failure: its converters cannot be created."""

    failure: BaseException
    restarts: RestartConfig
    admission: Admission = field(default_factory=Admission)

    def new_write_path(self, _: Any) -> Any:
        raise self.failure


def _ended(failure: BaseException, restarts: RestartConfig) -> tuple[WorkerSourceTask, States]:
    states = States()
    parts = cast("TaskParts", _Parts(failure, restarts))
    task = WorkerSourceTask(ConnectorTaskId("c", 0), parts, states, TaskMetrics())
    task.start()
    assert task.join(60)
    return task, states


@pytest.mark.parametrize("failure", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_any_exception_that_ends_a_run_fails_the_task(failure: BaseException):
    task, states = _ended(failure, RestartConfig())
    assert states.of(task) == [State.FAILED]
    assert isinstance(task.error, PluginError)
    assert task.error.__cause__ is failure


def test_an_exit_that_passed_the_edge_fails_the_task(caplog: pytest.LogCaptureFixture):
    task, _ = _ended(SystemExit(3), RestartConfig())
    assert isinstance(task.error, PluginError)
    # This is an ordinary failure of the task, not an internal error of the worker.
    assert "A fault of this worker" not in caplog.text


def test_a_fault_of_the_worker_itself_fails_the_task(caplog: pytest.LogCaptureFixture):
    # Computing the pause before the next start raises an error.
    task, states = _ended(RetriableError("away"), RestartConfig(backoff_s=cast("float", "soon")))
    assert states.of(task) == [State.FAILED]
    assert isinstance(task.error, TypeError)
    assert "A fault of this worker ended task c-0: " in caplog.text


def test_the_end_of_a_task_shortens_the_switch_interval_again(interval: float):
    done = threading.Event()
    others = [threading.Thread(target=done.wait, daemon=True) for _ in range(500)]
    for thread in others:
        thread.start()
    # The task waits to restart until it is stopped.
    states = States()
    parts = cast("TaskParts", _Parts(RetriableError("away"), RestartConfig(backoff_s=60.0)))
    task = WorkerSourceTask(ConnectorTaskId("c", 0), parts, states, TaskMetrics())
    task.start()
    assert sys.getswitchinterval() > interval
    done.set()
    for thread in others:
        thread.join()
    task.stop()
    assert task.join(60)
    assert sys.getswitchinterval() == pytest.approx(interval)
