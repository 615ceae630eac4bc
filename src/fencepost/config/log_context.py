"""Marks log lines with the connector or task that they are about, like Connect's `connector.context`.

with log_context(task):
    ...                     # log lines of this thread, or asyncio task, are about the task
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Final, ParamSpec, TypeVar

from fencepost.config.ids import ConnectorTaskId

P = ParamSpec("P")
T = TypeVar("T")

_subject: Final[ContextVar[str | ConnectorTaskId | None]] = ContextVar("subject", default=None)


@contextmanager
def log_context(subject: str | ConnectorTaskId) -> Iterator[None]:
    """Mark all log lines of the body with a connector, given by its name, or with a task."""
    token = _subject.set(subject)
    try:
        yield
    finally:
        _subject.reset(token)


def in_context(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that logs with the context of this thread, on any thread that calls it."""
    context = copy_context()

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return context.run(function, *args, **kwargs)

    return run


class ContextFilter(logging.Filter):
    """Gives each record `connector` and `task`, which may be None, and `connector_context`, a text of both."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes. All records pass."""
        match _subject.get():
            case ConnectorTaskId(connector, task):
                record.connector, record.task, record.connector_context = connector, task, f"[{connector}|task-{task}] "
            case str() as connector:
                record.connector, record.task, record.connector_context = connector, None, f"[{connector}|worker] "
            case None:
                record.connector, record.task, record.connector_context = None, None, ""
        return True
