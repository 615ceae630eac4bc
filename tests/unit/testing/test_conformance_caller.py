"""Calls of a connector's code with a time limit."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from fencepost.testing.conformance.caller import BlockedError, Caller


def test_a_call_that_does_not_return_is_blocked() -> None:
    released = threading.Event()
    caller = Caller(0.1)
    with pytest.raises(BlockedError, match=r"^poll\(\) did not return within 0.1 s"):
        caller.call("poll()", released.wait)
    released.set()
    caller.end()


def test_the_start_of_spark_does_not_count() -> None:
    # Runs in a separate process without a Spark session: no machine can start one in so short a time.
    script = (
        "from fencepost.testing.conformance.caller import Caller\n"
        "from fencepost.testing.spark import spark_session\n"
        "print(Caller(0.2).call('poll()', lambda: spark_session() is not None))"
    )
    told = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert told.stdout == "True\n", told.stderr
