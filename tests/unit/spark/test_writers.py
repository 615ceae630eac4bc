"""One function in one query writes a sink at a time."""

from __future__ import annotations

import gc

import pytest

from fencepost.api.errors import ConfigError, FencepostError
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

    def call(self, plan: int, *, batch: int, run: str = "1", sink: str = "orders", fails: bool = False) -> None:
        """One call of the function."""
        with self._writers.call(sink, StreamingBatch("q", run, batch, None), plan, brokers="one:9092"):
            if fails:
                raise FencepostError("the batch failed")


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


def test_a_second_call_for_a_batch_with_another_dataframe_is_refused(sinks: Sinks):
    sinks.call(1, batch=7)
    for _ in range(2):
        with pytest.raises(ConfigError, match="was called twice for batch 7, with two DataFrames"):
            sinks.call(2, batch=7)
    sinks.call(2, batch=7, sink="others")
    sinks.call(2, batch=8)


def test_a_call_is_repeated_with_the_same_dataframe_or_by_the_next_run(sinks: Sinks):
    sinks.call(1, batch=7)
    sinks.call(1, batch=7)
    sinks.call(2, batch=7, run="2")


def test_a_call_that_failed_does_not_count(sinks: Sinks):
    with pytest.raises(FencepostError):
        sinks.call(1, batch=7, fails=True)
    sinks.call(2, batch=7)
    with pytest.raises(FencepostError):
        sinks.call(2, batch=7, fails=True)
    with pytest.raises(ConfigError):
        sinks.call(1, batch=7)
