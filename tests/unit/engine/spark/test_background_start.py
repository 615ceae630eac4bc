"""Spark is started in the background once at a time, and what goes wrong is told when it matters."""

from __future__ import annotations

import logging
import threading

import pytest
from pyspark.sql import SparkSession

from fencepost.engine.errors import SparkStartError
from fencepost.engine.spark.background_start import BackgroundStart
from tests.support.processes import wait_for


class Start:
    """A start that fails when it is let go on."""

    def __init__(self) -> None:
        self.count = 0
        self.go_on = threading.Event()

    def __call__(self) -> SparkSession:
        self.count += 1
        self.go_on.wait()
        raise SparkStartError("no Java")


def test_a_start_that_failed_is_told_once_and_not_repeated_at_once(caplog: pytest.LogCaptureFixture):
    start = Start()
    background = BackgroundStart(start)
    assert not background.under_way
    background.begin()
    background.begin()
    assert background.under_way
    start.go_on.set()
    wait_for(lambda: not background.under_way)
    background.begin()

    assert start.count == 1
    assert [record.getMessage() for record in caplog.records] == ["Spark could not be started ahead of time: no Java"]


def test_a_start_that_a_stop_ends_is_no_news(caplog: pytest.LogCaptureFixture):
    start = Start()
    background = BackgroundStart(start)
    background.begin()
    background.expect_failure()
    start.go_on.set()
    wait_for(lambda: not background.under_way)

    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []
