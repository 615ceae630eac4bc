from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost import RetriableError, SourceBatch, SourceRecord, SourceTask
from fencepost.api.errors import PluginError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.task.control import TaskControl
from fencepost.runtime.task.instance import TaskInstance


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


def test_records_are_kept_only_for_a_task_with_commit_record():
    assert not TaskInstance(ConnectorTaskId("c", 0), _Task).keeps_records
    assert TaskInstance(ConnectorTaskId("c", 0), _Counting).keeps_records


def test_only_a_task_with_at_end_knows_its_end():
    assert not TaskInstance(ConnectorTaskId("c", 0), _Task).knows_end
    assert _instance(True).knows_end


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
def test_a_task_whose_lag_fails_keeps_running_and_is_not_asked_again(caplog: pytest.LogCaptureFixture, task: _Lost):
    instance = TaskInstance(ConnectorTaskId("c", 0), lambda: task)
    assert [instance.lag(), instance.lag()] == [None, None]
    assert task.calls == 1
    assert [record.message for record in caplog.records] == ["lag() of task c-0 failed, and is not called again"]


@pytest.mark.parametrize("lag", [math.inf, -math.inf, math.nan])
def test_a_lag_that_is_not_finite_is_unknown(caplog: pytest.LogCaptureFixture, lag: float):
    class Endless(_Task):
        def lag(self) -> float:
            return lag

    instance = TaskInstance(ConnectorTaskId("c", 0), Endless)
    assert (instance.first_lag(), instance.lag()) == (None, None)
    assert not caplog.records


class _Told(_Task):
    """Returns or raises a given result."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def poll(self) -> Any:
        return self._answer()

    def start(self, config: Any) -> None:
        del config
        self._answer()

    def at_end(self) -> Any:
        return self._answer()

    def stop(self) -> None:
        self._answer()

    def commit(self) -> None:
        self._answer()

    def commit_record(self, record: Any, metadata: Any) -> None:
        del record, metadata
        self._answer()

    def lag(self) -> Any:
        return self._answer()

    def _answer(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def _instance(answer: Any) -> TaskInstance:
    return TaskInstance(ConnectorTaskId("c", 0), lambda: _Told(answer))


_RECORD = SourceRecord({"file": "f"}, {"position": 1}, "t", "v")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"value": 1}, "returned a dict"),
        ("a line", "returned a str"),
        (b"a line", "returned a bytes"),
        (7, "returned an int"),
        (_RECORD, "returned a single SourceRecord"),
        (SourceRecord, "returned the class SourceRecord"),
        ([_RECORD, {"value": 1}], "returned a list whose item 1 is a dict"),
        ((_RECORD, None), "returned a tuple whose item 1 is None"),
        ([[_RECORD]], "returned a list whose item 0 is a list"),
    ],
)
def test_an_invalid_return_value_of_poll_is_reported_with_the_expected_one(answer: Any, found: str):
    with pytest.raises(PluginError) as raised:
        _instance(answer).poll()
    line = _Told.poll.__code__.co_firstlineno
    assert str(raised.value) == (
        f"poll() of task c-0, defined at {__file__}:{line}, {found}: it must return None, a SourceBatch, or an iterable of "
        "SourceRecord, such as a list"
    )


def test_a_poll_may_return_any_iterable_of_records():
    class Record(SourceRecord):
        pass

    other = Record({"file": "f"}, {"position": 2}, "t", "v")
    for answer in ([_RECORD, other], (_RECORD, other), iter([_RECORD, other]), {"a": _RECORD, "b": other}.values()):
        assert _instance(answer).poll() == [_RECORD, other]
    assert _instance(record for record in [_RECORD]).poll() == [_RECORD]
    assert _instance([]).poll() == []
    assert _instance(None).poll() is None
    batch = SourceBatch(reader=object.__new__(type("Reader", (), {"read": None})), splits=[1])
    assert _instance(batch).poll() is batch


def test_an_error_in_a_generator_fails_the_task_like_one_in_poll():
    def records() -> Iterator[SourceRecord]:
        yield _RECORD
        raise RetriableError("away")

    with pytest.raises(RetriableError, match="away"):
        _instance(records()).poll()


@pytest.mark.usefixtures("signals_handled")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration()], ids=repr)
def test_exceptions_that_would_end_the_tasks_thread_are_failures(error: BaseException):
    task = _instance(error)
    for method, arguments in (("poll", ()), ("at_end", ()), ("start", ({}, None))):
        with pytest.raises(PluginError, match=rf"{method}\(\) of task c-0 raised {type(error).__name__}"):
            getattr(task, method)(*arguments)


def test_an_exit_in_poll_is_a_failure():
    with pytest.raises(PluginError, match=r"poll\(\) of task c-0 raised SystemExit\(3\)"):
        _instance(SystemExit(3)).poll()


def test_exceptions_that_would_end_the_thread_are_logged_after_the_end(caplog: pytest.LogCaptureFixture):
    task = _instance(SystemExit(3))
    task.settled([(_RECORD, None)])
    task.committed()
    assert task.lag() is None
    task.stop()
    assert [record.message.partition(" of")[0] for record in caplog.records] == [
        "commit_record()", "commit()", "lag()", "stop()",
    ]  # fmt: skip


def test_an_exit_in_the_constructor_of_a_task_is_a_failure():
    def new_task() -> SourceTask:
        raise SystemExit(3)

    with pytest.raises(PluginError, match=r"The constructor of task c-0 raised SystemExit\(3\)"):
        TaskInstance(ConnectorTaskId("c", 0), new_task)


def test_whether_the_source_has_ended_is_true_or_false():
    assert _instance(True).at_end() is True
    with pytest.raises(PluginError, match=r"at_end\(\) of task c-0, .* returned None: it must return True or False"):
        _instance(None).at_end()


def test_a_task_is_stopped_once_and_everyone_waits_until_it_is():
    task = _Task()
    instance = TaskInstance(ConnectorTaskId("c", 0), lambda: task)
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


def test_a_waiter_for_a_paused_task_is_notified_of_its_end():
    control = TaskControl(paused=True)
    waiting = threading.Thread(target=control.wait_until_resumed)
    waiting.start()
    control.stop()
    waiting.join(120)
    assert not waiting.is_alive()
    control.wait(3600)
    assert control.stopping
    assert control.paused
