"""No thread of a task ends without the task's state saying so."""

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
    """The interpreter's switch interval in seconds, as it was and will be again."""
    before = sys.getswitchinterval()
    yield before
    sys.setswitchinterval(before)


@dataclass
class _Parts:
    """What a task needs up to the first thing that fails: its converters cannot be made."""

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
    # The state is reached by the ordinary way, and not as a fault of the worker.
    assert "A fault of this worker" not in caplog.text


def test_a_fault_of_the_worker_itself_fails_the_task(caplog: pytest.LogCaptureFixture):
    # The pause before the next start cannot be computed.
    task, states = _ended(RetriableError("away"), RestartConfig(backoff_s=cast("float", "soon")))
    assert states.of(task) == [State.FAILED]
    assert isinstance(task.error, TypeError)
    assert "A fault of this worker ended task c-0: " in caplog.text


def test_the_end_of_a_task_shortens_the_switch_interval_again(interval: float):
    done = threading.Event()
    others = [threading.Thread(target=done.wait, daemon=True) for _ in range(500)]
    for thread in others:
        thread.start()
    # It waits to restart until it is stopped.
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
