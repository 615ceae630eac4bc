"""The boundary between the worker and the code of plugins.

    worker ──call_plugin──> plugin's code
       ^                        │ anything it raises
       └────an Exception <──────┘
                                └──fork──> a child, which ends where it would return

Plugins are connectors, tasks, converters, transforms, predicates and config providers. Importing a plugin also runs its
code. Every failure becomes an Exception with a text that can be shown, so that only one connector, task or request
fails. `traces` looks for the stack frames of this module: the frames after them belong to the plugin.
"""

from __future__ import annotations

import os
import signal
import threading
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from inspect import getattr_static, unwrap
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

from fencepost.api.errors import PluginError
from fencepost.api.traces import plugin_location

P = ParamSpec("P")
T = TypeVar("T")

_INSPECTED: Final = frozenset(
    {"__class__", "__getattribute__", "__cause__", "__context__", "__suppress_context__", "__traceback__"}
)
_PYTHONS_OWN: Final = frozenset({object, BaseException})
_PLAIN_METACLASSES: Final = frozenset({type, ABCMeta})
# These are subclasses of Exception, but callers treat them as control flow, and not as failures.
_CONTROL_FLOW: Final = (StopIteration, StopAsyncIteration, CancelledError)


def call_plugin(what: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call code of a plugin. `what` names the call, such as `poll() of task files-0`.

    Raises the plugin's exception if it is an ordinary failure. Raises PluginError for everything else: exceptions that
    would end the thread or the process (SystemExit, KeyboardInterrupt, GeneratorExit ...), control flow (StopIteration
    ...), exceptions without a text, and objects that cannot be called. In a child process that the plugin forked, the
    call does not return: otherwise the worker's code would use the connections and the transactional id of its parent
    process.
    """
    process = _process
    if not callable(function):
        raise PluginError(f"{what} cannot be called: it is {kind_of(function)}. Define it as a method")
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        failure = _call_refused(what, function, error) or as_failure(what, error)
        if failure is error:
            raise
    finally:
        if process is not _process:
            _end_child(what)
    # The failure is raised after the `except` block: within the block, Python would set the plugin's error as its
    # context.
    raise failure from failure.__cause__


def iterate_plugin(what: str, items: Iterable[T]) -> Iterator[T]:
    """Yield the items of a plugin's iterable. Raises the same errors as `call_plugin`."""
    iterator = call_plugin(what, iter, items)
    while True:
        found = call_plugin(what, next, iterator, _END)
        if found is _END:
            return
        yield found


def as_failure(what: str, error: BaseException) -> Exception:
    """Return a plugin's error if it is an ordinary failure, else a PluginError with it as the cause.

    If an error's class overrides a method that Python calls to inspect errors, the error is not attached as a cause:
    the method would run wherever the cause is shown.
    """
    overridden = _overridden(type(error))
    if overridden is not None:
        return PluginError(
            f"{what} raised an exception whose class overrides {overridden}, so it cannot be shown without running its "
            "code: raise an exception that says what is wrong, for example DataError"
        )
    if isinstance(error, KeyboardInterrupt) and _is_ctrl_c():
        raise error
    message = _why_no_failure(what, error)
    if message is None and isinstance(error, Exception):
        return error
    failure = PluginError(message)
    failure.__cause__ = error
    return failure


def _end_child(what: str) -> NoReturn:
    message = f"{what} forked process {os.getpid()}, which ends here: end such a child in the plugin, by os._exit\n"
    # Logging is not used: another thread may have held one of its locks during the fork.
    with suppress(OSError):
        os.write(2, message.encode())
    os._exit(1)


def _call_refused(what: str, function: Callable[..., object], error: BaseException) -> PluginError | None:
    """Return the failure if a method did not accept the arguments of its call; None for any other error.

    Python raises this error at the call, so the error does not contain a line of the method.
    """
    if type(error) is not TypeError or error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return None
    location = _definition(function)
    if location is None:
        return None
    failure = PluginError(f"{what}, defined at {location}, does not take the arguments that it is called with: {error}")
    failure.__cause__ = error
    return failure


def _definition(function: Callable[..., object]) -> str | None:
    """Return `file:line` of a function, method or constructor that is written in Python."""
    written = getattr_static(function, "__init__") if isinstance(function, type) else function
    code = getattr(unwrap(written), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _overridden(kind: type) -> str | None:
    """Return an overridden method that Python calls to inspect an exception of this class; None if there is none."""
    if type(kind) not in _PLAIN_METACLASSES:
        return "the class of classes"
    for base in type.__dict__["__mro__"].__get__(kind):
        found = _INSPECTED.intersection(type.__dict__["__dict__"].__get__(base))
        if found and base not in _PYTHONS_OWN:
            return min(found)
    return None


def _why_no_failure(what: str, error: BaseException) -> str | None:
    """Return why an error is not an ordinary failure, None if it is an ordinary failure."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as broken:  # noqa: BLE001 - a plugin's __str__ may raise anything
        return f"{what} raised {name}, which has no text: its __str__ raised {type(broken).__name__}"
    if isinstance(error, Exception) and not isinstance(error, _CONTROL_FLOW):
        return None
    location = plugin_location(error)
    return (
        f"{what} raised {name}{f'({text})' if text else ''}{f' at {location}' if location else ''}, which is not a failure "
        "but would end a thread or the process: raise an exception that says what is wrong, for example DataError"
    )


def refuse_answer(what: str, function: Callable[..., object], found: str, expected: str) -> NoReturn:
    """Raise the PluginError for an invalid return value of a plugin's method.

    refuse_answer("poll() of task files-0", task.poll, kind_of(answer), "a list of SourceRecord")
    """
    definition = _definition(function)
    location = "" if definition is None else f", defined at {definition},"
    raise PluginError(f"{what}{location} returned {found}: it must return {expected}")


def kind_of(value: object) -> str:
    """Describe a value by its type, for messages: `a dict`, `an int`, `None`, `the class Counter`.

    The description never contains the value's content.
    """
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    name = type(value).__qualname__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _is_ctrl_c() -> bool:
    """Whether a KeyboardInterrupt may come from the user: only the main thread gets one, from Python's own handler."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


_END: Final[Any] = object()
_process = object()
"""Identifies this process: a forked child replaces the object."""


def _begin_in_child() -> None:
    global _process  # noqa: PLW0603 - it is compared across the fork
    _process = object()


os.register_at_fork(after_in_child=_begin_in_child)
