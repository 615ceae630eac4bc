"""The levels of Java's loggers. An operator sets them by the names that the loggers have in the worker."""

from __future__ import annotations

import logging
from typing import Final

LOGGERS: Final = "java"
"""The logger in the worker that is above all Java loggers."""

_BELOW: Final = f"{LOGGERS}."
_NAMES: Final = (
    (logging.DEBUG - 1, "TRACE"), (logging.DEBUG, "DEBUG"), (logging.INFO, "INFO"), (logging.WARNING, "WARN"),
    (logging.ERROR, "ERROR"), (logging.CRITICAL, "FATAL"),
)  # fmt: skip


def java_levels() -> dict[str, str]:
    """Return the loggers with explicitly set levels: the Java name of each logger, and Log4j's name of its level.

    The root logger has the empty name.
    """
    found = {}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and logger.level and (name == LOGGERS or name.startswith(_BELOW)):
            found[name.removeprefix(LOGGERS).removeprefix(".")] = _log4j(logger.level)
    return found


def _log4j(level: int) -> str:
    return next((name for highest, name in _NAMES if level <= highest), "OFF")
