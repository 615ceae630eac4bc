"""Levels set for Java loggers by their names in the worker are sent with Java's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from fencepost.java.log_levels import java_levels


@pytest.fixture(autouse=True)
def _only_own_levels() -> Iterator[None]:
    """Restore the level of Java loggers, which other tests in this process may have set."""
    loggers = [logging.getLogger(name) for name in ("java", "java.acme", "java.acme.Task", "javanese")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET)
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def test_only_levels_that_were_set_are_passed_on():
    logging.getLogger("java.acme.Task")
    logging.getLogger("javanese").setLevel(logging.DEBUG)
    assert java_levels() == {}
    logging.getLogger("java.acme").setLevel(logging.DEBUG)
    logging.getLogger("java").setLevel(logging.WARNING)
    assert java_levels() == {"acme": "DEBUG", "": "WARN"}


@pytest.mark.parametrize(("level", "name"), [(5, "TRACE"), (logging.CRITICAL, "FATAL"), (99, "OFF")])
def test_levels_have_the_names_of_log4j(level: int, name: str):
    logging.getLogger("java.acme").setLevel(level)
    assert java_levels() == {"acme": name}
