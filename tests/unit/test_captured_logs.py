"""`caplog.text` has pytest's format, also after pyspark has logged a query's error."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger


@pytest.fixture
def _error_of_a_query() -> Iterator[None]:
    """The logger as pyspark leaves it: it does not propagate, and pytest adds its handlers to such loggers."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    former, logger.propagate = logger.propagate, False
    yield
    logger.propagate = former


@pytest.mark.usefixtures("_error_of_a_query")
def test_messages_are_captured_in_the_format_of_pytest(caplog: pytest.LogCaptureFixture):
    logging.getLogger("fencepost").warning('a "name" in quotes')
    assert 'a "name" in quotes' in caplog.text
