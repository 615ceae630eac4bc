"""Fixtures for all unit tests."""

from __future__ import annotations

import logging
import threading

import pytest


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log records of the test, without those of threads that earlier tests left behind."""
    others = set(threading.enumerate()) - {threading.current_thread()}

    def is_own(_: logging.LogRecord) -> bool:
        return threading.current_thread() not in others

    caplog.handler.addFilter(is_own)
    return caplog
