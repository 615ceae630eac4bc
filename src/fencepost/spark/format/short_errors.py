"""Shortens the errors of `format("fencepost")` to their messages.

Spark's error for a data source begins with the traceback of the error and of all its causes. Without this module, a
user would have to find the message after a hundred lines of fencepost's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def with_short_errors(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap a method that Spark calls: inner frames and causes are removed from a FencepostError.

    Other errors are not changed.
    """

    @wraps(call)
    def shortened(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            from fencepost.api.errors import FencepostError  # noqa: PLC0415 - each session of Spark imports this module

            if not isinstance(error, FencepostError):
                raise
            raise error.with_traceback(None) from None

    return shortened
