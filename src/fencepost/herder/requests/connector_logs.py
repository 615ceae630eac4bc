"""Keeps the last log lines about each connector in memory, for the page at /ui. Their number and size are limited.

The limits: 200 lines and 64 kB for each connector, and 16 MB for all connectors of this worker together. A connector
that exceeds its own limits loses its oldest lines. If all connectors together exceed their limit, the connector that
has just logged loses its oldest lines, if it has more than an equal share. Otherwise the connector that has logged
nothing for the longest time loses all of its lines.
"""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from fencepost.api.secrets import SECRETS
from fencepost.api.texts import printable, shortened
from fencepost.api.traces import format_trace
from fencepost.config.log_context import ContextFilter

_LINES: Final = 200
_RING_BYTES: Final = 64 * 1024
_ALL_BYTES: Final = 16 * 1024 * 1024
_LONGEST: Final = 8_000
# The memory that a line takes besides its text, in bytes.
_LINE_BYTES: Final = 300


class LogLine(NamedTuple):
    """A line about a connector or a task. `at` is in milliseconds since 1970; `message` includes a trace at its end."""

    at: int
    level: str
    task: int | None
    message: str


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much is kept: lines and bytes of each connector, and bytes of all connectors together."""

    lines: int = _LINES
    ring_bytes: int = _RING_BYTES
    all_bytes: int = _ALL_BYTES


class ConnectorLogs(logging.Handler):
    """A handler of the root logger. It works between `start` and `stop`. Thread-safe."""

    def __init__(self, limits: LogLimits | None = None) -> None:
        super().__init__()
        self._limits = limits or LogLimits()
        self._rings: OrderedDict[str, _Ring] = OrderedDict()
        self._bytes = 0
        self.addFilter(ContextFilter())

    def start(self) -> None:
        """Start keeping log records."""
        logging.getLogger().addHandler(self)

    def stop(self) -> None:
        """Stop keeping log records."""
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a log record if it is about a connector."""
        connector = getattr(record, "connector", None)
        if connector is None:
            return
        try:
            line = _line(record)
        except Exception:  # noqa: BLE001 - an argument of a plugin's record may raise anything, as stderr then says
            return
        ring = self._rings.setdefault(connector, _Ring())
        self._rings.move_to_end(connector)
        self._bytes += ring.add(line)
        while len(ring.lines) > self._limits.lines or ring.bytes > self._limits.ring_bytes:
            self._bytes -= ring.drop()
        self._shrink(ring)

    def lines(self, connector: str) -> list[LogLine]:
        """Return the lines about a connector, the oldest first. Passwords that are known by now are hidden."""
        self.acquire()
        try:
            ring = self._rings.get(connector)
            found = [] if ring is None else list(ring.lines)
        finally:
            self.release()
        return [line._replace(message=SECRETS.hidden(line.message)) for line in found]

    def _shrink(self, own: _Ring) -> None:
        while self._bytes > self._limits.all_bytes:
            if own.bytes > self._limits.all_bytes // len(self._rings) and len(own.lines) > 1:
                self._bytes -= own.drop()
            else:
                _, silent = self._rings.popitem(last=False)
                self._bytes -= silent.bytes


class _Ring:
    __slots__ = ("bytes", "lines")

    def __init__(self) -> None:
        self.lines: deque[LogLine] = deque()
        self.bytes = 0

    def add(self, line: LogLine) -> int:
        self.lines.append(line)
        self.bytes += _size(line)
        return _size(line)

    def drop(self) -> int:
        size = _size(self.lines.popleft())
        self.bytes -= size
        return size


def _size(line: LogLine) -> int:
    return sys.getsizeof(line.message) + _LINE_BYTES


def _line(record: logging.LogRecord) -> LogLine:
    message = SECRETS.hidden(record.getMessage())
    if record.exc_info and record.exc_info[1] is not None:
        message = f"{message}\n{format_trace(record.exc_info[1]).rstrip()}"
    level = record.levelname[:20]
    return LogLine(
        int(record.created * 1000), level, getattr(record, "task", None), shortened(printable(message), _LONGEST)
    )
