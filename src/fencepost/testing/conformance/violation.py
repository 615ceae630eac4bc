"""The findings of the checks, and where they are in the author's code."""

from __future__ import annotations

import linecache
import sys
import threading
from contextlib import suppress
from inspect import getsourcefile, getsourcelines, unwrap
from types import FrameType
from typing import Any, Final

from fencepost.api.errors import describe_error
from fencepost.api.source import SourceTask
from fencepost.api.traces import plugin_location

# The package of fencepost that contains connectors, whose code counts as an author's code.
_CONNECTORS: Final = "fencepost.connectors"


# The module with the default methods of connectors and tasks.
_BASE: Final = SourceTask.__module__


class Violation(AssertionError):  # noqa: N818 - it is the connector that is in error
    """A connector breaks a rule. `where` is `file:line` of its code; None if no line can be named."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(message if where is None else f"{message}\n{where}{_code(where)}")
        self.message = message
        self.where = where

    @property
    def code(self) -> str:
        """The line of code at `where`; an empty text if it cannot be read."""
        return "" if self.where is None else _code(self.where).strip()


class NotApplicableError(Exception):
    """A check does not apply to this connector; the text is the reason."""


def defined_at(plugin: type[Any], method: str) -> str | None:
    """Return `file:line` of the author's code for a method of a connector or task; None if no line can be named.

    The line is the definition of the method. If the class inherits the method from fencepost, it is the line of the
    class. If fencepost made the class (see `source`), it is the line of the class's or function's original.
    """
    made_of = getattr(plugin, "made_of", None)
    if made_of is not None:
        return _line_of(made_of)
    function = unwrap(getattr(plugin, method))
    if getattr(function, "__module__", None) == _BASE:
        return _line_of(plugin)
    return _line_of(function)


def _line_of(written: Any) -> str | None:
    """Return `file:line` of a function or class; None if it is not written in Python."""
    code = getattr(unwrap(written), "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    with suppress(OSError, TypeError):
        return f"{getsourcefile(written)}:{getsourcelines(written)[1]}"
    return None


def raised(what: str, error: Exception, plugin: type[Any], method: str) -> Violation:
    """Return the violation for an error that the connector's code raised."""
    return Violation(
        f"{what} raised an error: {describe_error(error)}", plugin_location(error) or defined_at(plugin, method)
    )


def line_of_thread(thread: threading.Thread) -> str | None:
    """Return `file:line` of the author's code that a thread is running; None if it runs none."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - the only way to see where a thread is
    return author_line(frame)


def author_line(frame: FrameType | None) -> str | None:
    """Return `file:line` of the innermost frame, from this one outwards, that is neither Python's nor fencepost's."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if module.startswith(_CONNECTORS) or not (package == "fencepost" or package in sys.stdlib_module_names):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _code(where: str) -> str:
    file, _, line = where.rpartition(":")
    text = linecache.getline(file, int(line)).strip()
    return f"\n    {text}" if text else ""
