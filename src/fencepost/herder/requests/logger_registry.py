"""The levels of loggers, under Connect's names: the loggers are Python's, the names of the levels are log4j's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from fencepost.herder.entities import LoggerLevel
from fencepost.herder.errors import BadRequestError, NotFoundError

ROOT: Final = "root"

_LEVELS: Final[Mapping[str, int]] = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}


class LoggerRegistry:
    """Shows and sets levels. `now_ms` returns the time, in milliseconds since the epoch."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._modified: dict[str, int] = {}

    def levels(self) -> dict[str, LoggerLevel]:
        """Return the loggers with an explicitly set level, by name."""
        names = [ROOT, *(name for name, logger in _loggers().items() if logger.level)]
        return {name: self._level(name) for name in names}

    def level(self, name: str) -> LoggerLevel:
        """Return a logger's effective level. Raises NotFoundError for an unused logger."""
        if name != ROOT and name not in _loggers():
            raise NotFoundError(f"There is no logger {name!r}: GET /admin/loggers lists those that have a level")
        return self._level(name)

    def set_level(self, namespace: str, level: str) -> list[str]:
        """Set the level of a logger, which may be new, and of all loggers below it. Return their names.

        Raises BadRequestError for an unknown level.
        """
        number = _LEVELS.get(level.strip().upper())
        if number is None:
            raise BadRequestError(f"There is no level {level!r}: use one of {', '.join(_LEVELS)}")
        below = [name for name in _loggers() if namespace == ROOT or name.startswith(f"{namespace}.")]
        names = sorted({namespace, *below})
        now = self._now_ms()
        for name in names:
            _logger(name).setLevel(number)
            self._modified[name] = now
        return names

    def _level(self, name: str) -> LoggerLevel:
        return LoggerLevel(_name_of(_logger(name).getEffectiveLevel()), self._modified.get(name))


def _name_of(number: int) -> str:
    """Return the name of the lowest level that is at least `number`; OFF if there is none."""
    return next((name for name, level in _LEVELS.items() if level >= number), "OFF")


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _loggers() -> dict[str, logging.Logger]:
    known = logging.Logger.manager.loggerDict
    return {name: logger for name, logger in list(known.items()) if isinstance(logger, logging.Logger)}
