"""Traces of errors that a plugin's code raised. They begin at that code, without the worker's own stack frames.

worker's frames -> plugin_calls -> plugin's frames
                                   └── the part that is shown
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Final

from fencepost.api.secrets import SECRETS
from fencepost.api.texts import printable, shortened

_EDGE: Final = "fencepost.api.plugin_calls"
# When a plugin is imported, Python's own frames come before the frames of the plugin's module.
_IMPORTS: Final = "importlib"

# A status must fit into one record, whose maximum size is 1 MB by default.
_LONGEST_TRACE: Final = 64 * 1024


def format_trace(error: BaseException) -> str:
    """Return an error with its causes, as Python prints it. For plugin errors, only the plugin's frames are included.

    The text has at most about 64 Ki characters, and contains no passwords. To show an error, Python asks objects for
    their names and texts. If that raises an exception, the exception is named instead of the trace.
    """
    try:
        shown = traceback.TracebackException.from_exception(error)
        _trim(shown, error)
        return printable(shortened(SECRETS.hidden("".join(shown.format())), _LONGEST_TRACE))
    except BaseException as broken:  # noqa: BLE001 - code of plugins may raise anything
        return f"An error that cannot be shown: showing it raised {type(broken).__name__}\n"


def plugin_location(error: BaseException) -> str | None:
    """Return `/path/to/file.py:12` for an error from a plugin's code, None for any other error.

    The line is the innermost one in the package that the worker called, because the libraries that this package calls
    are rarely the cause.
    """
    frames = _plugin_frames(error.__traceback__)
    if not frames:
        return None
    package = _package(frames[0][0])
    frame, line = [entry for entry in frames if _package(entry[0]) == package][-1]
    return f"{frame.f_code.co_filename}:{line}"


def _plugin_frames(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """The frames after the last call of a plugin, each with its line. There are none if no plugin was called."""
    start = _plugin_start(trace)
    return [] if start is None else [(entry.tb_frame, entry.tb_lineno) for entry in list(_entries(trace))[start:]]


def _plugin_start(trace: TracebackType | None) -> int | None:
    """The index of a plugin's first frame. It is the number of frames if the plugin has none.

    The result is None if no plugin was called.
    """
    modules = [str(entry.tb_frame.f_globals.get("__name__", "")) for entry in _entries(trace)]
    if _EDGE not in modules:
        return None
    start = len(modules) - modules[::-1].index(_EDGE)
    while start < len(modules) and modules[start].partition(".")[0] == _IMPORTS:
        start += 1
    return start


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _trim(shown: traceback.TracebackException, error: BaseException) -> None:
    """Remove the worker's frames from an error and its causes."""
    del shown.stack[: _plugin_start(error.__traceback__) or 0]
    if shown.__cause__ is not None and error.__cause__ is not None:
        _trim(shown.__cause__, error.__cause__)
    if shown.__context__ is not None and error.__context__ is not None:
        _trim(shown.__context__, error.__context__)
    if shown.exceptions and isinstance(error, BaseExceptionGroup):
        for member, inner in zip(shown.exceptions, error.exceptions, strict=False):
            _trim(member, inner)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
