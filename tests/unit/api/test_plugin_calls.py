from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from fencepost import DataError, FencepostError, RetriableError
from fencepost.api.errors import PluginError, describe_error
from fencepost.api.plugin_calls import call_plugin, iterate_plugin, kind_of, refuse_answer
from fencepost.api.traces import format_trace

_HERE = Path(__file__)
_WHAT = "poll() of task c-0"


class _MuteError(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class _SilentExit(SystemExit):
    def __str__(self) -> str:
        raise ValueError("no text")


def _exceptions_that_run_code() -> dict[str, type[BaseException]]:
    """Made by a function, because pytest inspects all objects of a module."""

    class Meta(type):
        def __getattribute__(cls, name: str) -> object:
            raise SystemExit(6)

    class Cause(Exception):  # noqa: N818
        @property
        def __cause__(self) -> BaseException:  # type: ignore[override]
            raise SystemExit(5)

    class Kind(Exception):  # noqa: N818
        @property
        def __class__(self) -> type:
            raise SystemExit(4)

    class OfMeta(Exception, metaclass=Meta):  # noqa: N818
        pass

    return {"metaclass": OfMeta, "cause": Cause, "class": Kind}


def _raising(error: BaseException) -> Callable[[], None]:
    def poll() -> None:
        raise error

    return poll


@pytest.mark.parametrize("overridden", ["metaclass", "cause", "class"])
def test_an_exception_that_runs_code_when_it_is_looked_at_is_replaced(overridden: str):
    def poll() -> None:
        error = _exceptions_that_run_code()[overridden]()
        raise error

    with pytest.raises(PluginError, match=r"poll\(\) of task c-0 raised an exception whose class overrides") as raised:
        call_plugin(_WHAT, poll)
    assert raised.value.__cause__ is None
    assert "PluginError" in format_trace(raised.value)


def test_an_error_that_cannot_be_shown_fully_is_still_reported():
    def poll() -> None:
        raise ValueError("no such table") from _exceptions_that_run_code()["cause"]()

    with pytest.raises(ValueError, match="no such table") as raised:
        call_plugin(_WHAT, poll)
    assert format_trace(raised.value) == "An error that cannot be shown: showing it raised SystemExit\n"
    assert describe_error(raised.value).startswith("ValueError: no such table (")


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        BaseException("odd"),
        BaseExceptionGroup("several", [SystemExit(1)]),
        StopIteration(7),
        StopAsyncIteration(),
        concurrent.futures.CancelledError(),
        _MuteError(),
        _SilentExit(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.usefixtures("signals_handled")
def test_extraordinary_exceptions_become_ordinary_failures(error: BaseException):
    with pytest.raises(PluginError, match=rf"poll\(\) of task c-0 raised {type(error).__name__}") as raised:
        call_plugin(_WHAT, _raising(error))
    assert raised.value.__cause__ is error


def test_an_exit_is_reported_with_its_status_and_its_location():
    with pytest.raises(PluginError) as raised:
        call_plugin(_WHAT, _raising(SystemExit(3)))
    assert f"raised SystemExit(3) at {_HERE}:" in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), DataError("x"), RetriableError("x"), MemoryError(), RecursionError("x"), ExceptionGroup("x", [OSError()])],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_ordinary_failure_is_not_changed(error: Exception):
    with pytest.raises(type(error)) as raised:
        call_plugin(_WHAT, _raising(error))
    assert raised.value is error


def test_a_non_callable_method_is_reported():
    with pytest.raises(PluginError, match=r"version\(\) of connector c cannot be called: it is a str\. Define it as"):
        call_plugin("version() of connector c", "1.0")  # type: ignore[arg-type]  # what an author may write


def test_ctrl_c_is_not_a_failure_of_the_interrupted_plugin():
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            call_plugin(_WHAT, lambda: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("signals_handled")
def test_an_interrupt_is_the_plugins_own_where_a_signal_raises_none():
    with pytest.raises(PluginError, match="raised KeyboardInterrupt"):
        call_plugin(_WHAT, _raising(KeyboardInterrupt()))


def test_a_generator_is_iterated_as_any_other_code_of_a_plugin():
    def records() -> Iterator[int]:
        yield 1
        raise SystemExit(2)

    items = iterate_plugin("read() of reader", records())
    assert next(items) == 1
    with pytest.raises(PluginError, match=r"read\(\) of reader raised SystemExit\(2\)"):
        next(items)
    assert list(iterate_plugin("read() of reader", iter([1, None, 2]))) == [1, None, 2]


def test_a_return_value_of_another_type_is_reported_in_the_authors_terms():
    def poll() -> None: ...

    line = poll.__code__.co_firstlineno
    with pytest.raises(PluginError) as raised:
        refuse_answer(_WHAT, poll, kind_of({"secret": 1}), "a list of SourceRecord")
    assert (
        str(raised.value)
        == f"{_WHAT}, defined at {_HERE}:{line}, returned a dict: it must return a list of SourceRecord"
    )
    assert "File" not in format_trace(raised.value)
    with pytest.raises(PluginError, match=r"task c-0 returned None: it must return a str"):
        refuse_answer(_WHAT, print, kind_of(None), "a str")


@pytest.mark.parametrize(
    ("value", "told"), [(None, "None"), ({}, "a dict"), (1, "an int"), (dict, "the class dict"), (_HERE, "a PosixPath")]
)
def test_values_are_named_by_their_type(value: object, told: str):
    assert kind_of(value) == told


def _break() -> None:
    json.loads("{")


def test_a_plugins_error_is_described_with_the_line_of_the_plugin():
    with pytest.raises(json.JSONDecodeError) as raised:
        call_plugin(_WHAT, _break)
    line = _break.__code__.co_firstlineno + 1
    assert describe_error(raised.value).endswith(f"(char 1) ({_HERE}:{line})")


def test_other_errors_are_described_without_a_line():
    with pytest.raises(ValueError, match="x") as raised:
        _raising(ValueError("x"))()
    assert describe_error(raised.value) == "ValueError: x"
    with pytest.raises(FencepostError) as told:
        call_plugin(_WHAT, _raising(DataError("row 7 is bad")))
    assert describe_error(told.value) == "row 7 is bad"


def _worker() -> None:
    call_plugin(_WHAT, _plugin)


def _plugin() -> None:
    try:
        _break()
    except ValueError as error:
        raise DataError("no JSON") from error


def test_the_trace_of_a_plugins_error_begins_where_its_code_does():
    with pytest.raises(DataError) as raised:
        _worker()
    trace = format_trace(raised.value)
    assert "_worker" not in trace
    assert "fencepost/api/plugin_calls" not in trace
    for shown in ("in _plugin", "in _break", "decoder.py", "direct cause", "DataError: no JSON"):
        assert shown in trace


def test_the_trace_of_a_plugin_error_shows_the_plugins_own_error():
    with pytest.raises(PluginError) as raised:
        call_plugin(_WHAT, _raising(SystemExit(3)))
    trace = format_trace(raised.value)
    assert "in poll" in trace
    assert "fencepost/api/plugin_calls" not in trace
    assert "SystemExit: 3" in trace


def test_the_trace_of_any_other_error_is_whole():
    with pytest.raises(ValueError, match="Expecting") as raised:
        _break()
    assert "test_the_trace_of_any_other_error_is_whole" in format_trace(raised.value)


def test_a_module_that_fails_to_import_is_reported_with_its_own_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = tmp_path / "edge_of_import.py"
    module.write_text("x = 1\n1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError) as raised:
        call_plugin("importing edge_of_import", importlib.import_module, "edge_of_import")
    assert describe_error(raised.value) == f"ZeroDivisionError: division by zero ({module}:2)"
    assert "importlib" not in format_trace(raised.value)
    assert "edge_of_import" not in sys.modules


class WrongSignatures:
    def __init__(self, needed: str) -> None:
        self.needed = needed

    def start(self) -> None:
        """There is nothing to configure."""


def test_a_method_that_does_not_take_its_arguments_is_named_with_its_line():
    line = WrongSignatures.start.__code__.co_firstlineno
    start: Any = WrongSignatures("x").start
    with pytest.raises(
        PluginError, match=rf"start\(\) of task t-0, defined at {__file__}:{line}, does not take the"
    ) as raised:
        call_plugin("start() of task t-0", start, {})
    assert "takes 1 positional argument but 2 were given" in str(raised.value)


def test_a_constructor_that_does_not_take_its_arguments_is_named_with_its_line():
    line = WrongSignatures.__init__.__code__.co_firstlineno
    with pytest.raises(PluginError, match=rf"The constructor, defined at {__file__}:{line}, does not take the"):
        call_plugin("The constructor", cast("Any", WrongSignatures))


def test_a_type_error_of_the_plugin_itself_is_not_changed():
    def poll() -> object:
        return len(cast("Any", 1))

    with pytest.raises(TypeError, match="has no len"):
        call_plugin("poll()", poll)


@pytest.mark.parametrize("error", [None, DataError("in the child"), SystemExit(0)])
def test_a_child_that_a_plugin_forks_ends_where_it_would_return(
    error: BaseException | None, capfd: pytest.CaptureFixture[str]
) -> None:
    here = os.getpid()

    def poll() -> int:
        child = os.fork()
        if child == 0 and error is not None:
            raise error
        return child

    try:
        child = call_plugin(_WHAT, poll)
    finally:
        if os.getpid() != here:
            os._exit(0)

    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert f"{_WHAT} forked" in capfd.readouterr().err
