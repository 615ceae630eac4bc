"""Spark is not started while the worker writes large batches itself."""

from __future__ import annotations

import pytest

from fencepost.engine.own_writes import QUIET_SECONDS, OwnWrites


class Clock:
    """A clock that only a test advances."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_worker_counts_as_idle_some_time_after_its_last_batch():
    clock = Clock()
    writes = OwnWrites(clock)
    assert writes.quiet()
    with writes.one():
        with writes.one():
            clock.now += 2 * QUIET_SECONDS
        clock.now += 2 * QUIET_SECONDS
        assert not writes.quiet()
    assert not writes.quiet()
    clock.now += QUIET_SECONDS
    assert writes.quiet()


def test_a_batch_that_fails_has_ended_as_well():
    clock = Clock()
    writes = OwnWrites(clock)
    with pytest.raises(ValueError, match="bad"), writes.one():
        raise ValueError("bad")
    clock.now += QUIET_SECONDS
    assert writes.quiet()
