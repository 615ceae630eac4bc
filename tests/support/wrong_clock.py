"""A wrong clock in this process, which is ahead, for the timestamps of producers."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

_MODULES = ("fencepost.kafka.producer.batch_encoder", "fencepost.kafka.producer.simple")
HOURS_AHEAD = 2
"""Brokers refuse records that are more than an hour ahead (message.timestamp.after.max.ms)."""


def put_clock_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock of all producers of this process ahead, until `monkeypatch` is undone."""
    ahead = SimpleNamespace(time=lambda: time.time() + 3600 * HOURS_AHEAD, monotonic=time.monotonic, sleep=time.sleep)
    for module in _MODULES:
        monkeypatch.setattr(f"{module}.time", ahead)
