"""Marks log lines with the connector or task that they are about, like Connect's `connector.context`.

with log_context(task):
    ...                     # what this thread, or asyncio task, logs here is about the task
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
    """Mark everything logged inside with a connector, given by its name, or with a task."""
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
    """Gives each record `connector` and `task`, None outside of one, and both as `connector_context`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        match _subject.get():
            case ConnectorTaskId(connector, task):
                record.connector, record.task, record.connector_context = connector, task, f"[{connector}|task-{task}] "
            case str() as connector:
                record.connector, record.task, record.connector_context = connector, None, f"[{connector}|worker] "
            case None:
                record.connector, record.task, record.connector_context = None, None, ""
        return True
