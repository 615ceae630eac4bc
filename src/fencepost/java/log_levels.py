"""The levels of Java's loggers, which an operator sets by the names that they have in the worker."""

from __future__ import annotations

import logging
from typing import Final

LOGGERS: Final = "java"
"""The logger above all of Java's."""

_BELOW: Final = f"{LOGGERS}."
_NAMES: Final = (
    (logging.DEBUG - 1, "TRACE"), (logging.DEBUG, "DEBUG"), (logging.INFO, "INFO"), (logging.WARNING, "WARN"),
    (logging.ERROR, "ERROR"), (logging.CRITICAL, "FATAL"),
)  # fmt: skip


def java_levels() -> dict[str, str]:
    """Return the loggers with their own levels: Java's name of a logger, and Log4j's name of its level.

    The root's name is empty.
    """
    found = {}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and logger.level and (name == LOGGERS or name.startswith(_BELOW)):
            found[name.removeprefix(LOGGERS).removeprefix(".")] = _log4j(logger.level)
    return found


def _log4j(level: int) -> str:
    return next((name for highest, name in _NAMES if level <= highest), "OFF")
