"""One function in one query writes a sink at a time."""

from __future__ import annotations

import gc

import pytest

from fencepost.api.errors import ConfigError
from fencepost.spark.streaming_batch import StreamingBatch
from fencepost.spark.writers import Writers


class Function:
    """Stands for a function of foreachBatch."""


def batch(query: str, run: str) -> StreamingBatch:
    return StreamingBatch(query, run, 0, None)


class Sinks:
    """Claims of the sink `orders` and others, in an application where the runs of `running` go on."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self._writers = Writers()

    def claim(self, function: object, query: str, run: str, *, sink: str = "orders", brokers: str = "one:9092") -> None:
        self.running.add(run)
        self._writers.claim(
            sink, function, batch(query, run), brokers=(brokers,), is_running=lambda known: known.run in self.running
        )


@pytest.fixture
def sinks() -> Sinks:
    return Sinks()


def test_a_second_function_in_one_query_is_refused(sinks: Sinks):
    first, second = Function(), Function()
    sinks.claim(first, "q", "1")
    sinks.claim(first, "q", "1")
    with pytest.raises(ConfigError, match="give each a name of its own"):
        sinks.claim(second, "q", "1")
    sinks.claim(second, "q", "1", sink="others")
    sinks.claim(second, "q", "1", brokers="two:9092")


def test_a_query_beside_a_running_one_is_refused(sinks: Sinks):
    function = Function()
    sinks.claim(function, "q", "1")
    for other in (function, Function()):
        with pytest.raises(ConfigError, match="Sink orders is written by query q, which runs in this application"):
            sinks.claim(other, "p", "2")
    sinks.claim(function, "q", "1")


def test_the_next_run_and_another_query_follow_one_that_ended(sinks: Sinks):
    function = Function()
    sinks.claim(function, "q", "1")
    sinks.running.clear()
    sinks.claim(function, "q", "2")
    sinks.running.clear()
    sinks.claim(Function(), "p", "3")


def test_a_function_that_is_gone_is_replaced_in_its_query(sinks: Sinks):
    sinks.claim(Function(), "q", "1")
    gc.collect()
    sinks.claim(Function(), "q", "1")
