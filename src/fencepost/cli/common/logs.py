"""The log on stderr: one line per event, as text or as JSON, with the connector and the task that it is about."""

from __future__ import annotations

import copy
import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Any, Final

import click

from fencepost.api.errors import FencepostError, describe_error
from fencepost.api.secrets import SECRETS
from fencepost.api.texts import printable
from fencepost.api.traces import format_trace
from fencepost.config.log_context import ContextFilter

_log: Final = logging.getLogger(__name__)

FORMATS: Final = ("text", "json")

_TEXT: Final = "%(asctime)s %(levelname)-7s %(connector_context)s%(message)s (%(name)s)"

# These libraries log errors that they also raise, or recover from; fencepost reports the consequences.
_SILENT_LOGGERS: Final = ("kafka", "py4j")


class _TextFormatter(logging.Formatter):
    """Hides secrets, and escapes the control characters of terminals."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(SECRETS.hidden(super().format(record)))


class _TraceFormatter(_TextFormatter):
    """Removes the worker's own frames from the traces of plugin errors."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the trace."""
        return super().formatException(ei) if ei[1] is None else format_trace(ei[1]).rstrip("\n")


class _OneLineFormatter(_TextFormatter):
    """Omits tracebacks: the message of an error says what happened and what to do."""

    def format(self, record: logging.LogRecord) -> str:
        brief = copy.copy(record)
        error = record.exc_info[1] if record.exc_info else None
        brief.exc_info = brief.exc_text = None
        # fencepost's own errors say what to do; for others, such as a connector's, the traceback shows their origin.
        hint = "" if error is None or isinstance(error, FencepostError) else " [--traceback shows where]"
        return " ".join(super().format(brief).split("\n")) + hint


class _OthersFilter(logging.Filter):
    """Passes all records of fencepost.

    Of other loggers, it passes warnings and errors. It passes lower levels only if an operator has set the logger's
    level.
    """

    def __init__(self, level: int) -> None:
        """`level` is the initial level of the root logger."""
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written."""
        return record.levelno >= logging.WARNING or self._asked_for(record.name)

    def _asked_for(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None and logger.parent is not None:
            if logger.level != logging.NOTSET:
                return True
            logger = logger.parent
        return logging.getLogger().level != self._level


class JsonFormatter(_TraceFormatter):
    """Writes each record as a JSON object on one line; tracebacks are in `exception`.

    {"timestamp": "2026-01-31T12:00:00.123+00:00", "level": "WARNING", "logger": "fencepost.runtime.task.source_task",
     "connector": "c", "task": 0, "message": "..."}
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "connector": getattr(record, "connector", None),
            "task": getattr(record, "task", None),
            "message": SECRETS.hidden(record.getMessage()),
            "exception": self.formatException(record.exc_info) if record.exc_info else None,
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)


def log_to_stderr(level: str, log_format: str, *, tracebacks: bool) -> None:
    """Log fencepost's messages from a level up, and the warnings of others, in one of FORMATS.

    The root logger has that level, as in Connect. As text, DEBUG shows tracebacks as well.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler()
    handler.addFilter(_OthersFilter(number))
    handler.addFilter(ContextFilter())
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        shows_tracebacks = tracebacks or level.upper() == "DEBUG"
        handler.setFormatter((_TraceFormatter if shows_tracebacks else _OneLineFormatter)(_TEXT))
    logging.basicConfig(handlers=[handler], level=number)
    # Java connectors log under java.
    for name in ("fencepost", "java"):
        logging.getLogger(name).setLevel(number)
    for name in _SILENT_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def hide_secrets_in_uncaught_errors() -> None:
    """Print an uncaught error without passwords to stderr; log the errors that threads and destructors do not catch."""
    sys.excepthook = lambda _kind, error, _trace: click.echo(format_trace(error), nl=False, err=True)
    threading.excepthook = _log_end_of_thread
    sys.unraisablehook = _log_unraisable


def _log_end_of_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        name = args.thread.name if args.thread is not None else "that has ended"
        _log.error("The thread %s ended with %s", name, describe_error(args.exc_value), exc_info=args.exc_value)


def _log_unraisable(args: sys.UnraisableHookArgs) -> None:
    error = args.exc_value if args.exc_value is not None else args.exc_type()
    what = args.err_msg or "What Python calls by itself"
    _log.error("%s failed: %s", what, describe_error(error), exc_info=error)
