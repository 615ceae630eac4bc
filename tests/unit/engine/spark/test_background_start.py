"""Spark is started in the background once at a time, and a failure is reported when Spark is needed."""

from __future__ import annotations

import logging
import threading

import pytest
from pyspark.sql import SparkSession

from fencepost.engine.errors import SparkStartError
from fencepost.engine.spark.background_start import BackgroundStart
from tests.support.processes import wait_for


class Start:
    """A start that fails once the test releases it."""

    def __init__(self) -> None:
        self.count = 0
        self.go_on = threading.Event()

    def __call__(self) -> SparkSession:
        self.count += 1
        self.go_on.wait()
        raise SparkStartError("no Java")


def test_a_failed_start_is_reported_once_and_not_repeated_immediately(caplog: pytest.LogCaptureFixture):
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


def test_a_start_that_a_stop_ends_is_not_reported(caplog: pytest.LogCaptureFixture):
    start = Start()
    background = BackgroundStart(start)
    background.begin()
    background.expect_failure()
    start.go_on.set()
    wait_for(lambda: not background.under_way)

    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []


def test_a_start_waits_until_it_is_quiet():
    start, quiet = Start(), threading.Event()
    background = BackgroundStart(start)
    background.begin(quiet.is_set)
    assert not background.under_way
    quiet.set()
    wait_for(lambda: background.under_way and start.count == 1)
    start.go_on.set()
    wait_for(lambda: not background.under_way)


def test_a_start_that_waits_begins_when_it_is_needed():
    start = Start()
    background = BackgroundStart(start)
    background.begin(lambda: False)
    background.begin(lambda: False)
    assert not background.under_way
    background.begin()
    wait_for(lambda: background.under_way and start.count == 1)
    start.go_on.set()
    wait_for(lambda: not background.under_way)
    assert start.count == 1


def test_a_start_that_waits_is_given_up_at_a_stop():
    start = Start()
    start.go_on.set()
    background = BackgroundStart(start)
    background.begin(lambda: False)
    background.expect_failure()
    wait_for(lambda: background._thread is not None and not background._thread.is_alive())
    assert start.count == 0
