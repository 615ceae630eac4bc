"""Errors of `format("fencepost")` without what stands before their message.

Spark's error for one of a data source begins with its traceback, and those of all its causes. A user would look for the
message behind a hundred lines of fencepost's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def with_short_errors(call: Callable[P, T]) -> Callable[P, T]:
    """Let a FencepostError out of a method that Spark calls without inner frames and causes. Others are unchanged."""

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
