"""At any time, only one function of one query writes a sink."""

from __future__ import annotations

import gc
import operator
import weakref

import pytest

from fencepost.api.errors import ConfigError
from fencepost.spark.config.progress import NextStep
from fencepost.spark.query.streaming_batch import StreamingBatch
from fencepost.spark.query.writers import ClusterSink, Writers
from tests.support.refusals import refusal


class Function:
    """Stands for a foreachBatch function."""


def batch(query: str, run: str) -> StreamingBatch:
    return StreamingBatch(query, run, 0, None)


class Sinks:
    """Claims of the sink `orders` and other sinks, in an application where the runs of `running` still run."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self._writers = Writers(operator.is_)

    def claim(self, function: object, query: str, run: str, *, sink: str = "orders", cluster: str = "one") -> None:
        self.running.add(run)
        self._writers.claim(
            ClusterSink(cluster, sink), function, batch(query, run), is_running=lambda known: known.run in self.running
        )

    def call(
        self, frame: object, *, batch: int, step: NextStep, run: str = "1", sink: str = "orders", cluster: str = "one"
    ) -> None:
        """One call of the function, after it has read the progress in Kafka."""
        self._writers.check_frame(ClusterSink(cluster, sink), StreamingBatch("q", run, batch, None), frame, step)


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
    sinks.claim(second, "q", "1", cluster="two")


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
    assert refusal(sinks.claim, function, "q", "2") is None
    sinks.running.clear()
    assert refusal(sinks.claim, Function(), "p", "3") is None


def test_a_function_that_is_gone_is_replaced_in_its_query(sinks: Sinks):
    sinks.claim(Function(), "q", "1")
    gc.collect()
    assert refusal(sinks.claim, Function(), "q", "1") is None


def test_a_second_call_for_a_batch_with_another_dataframe_is_refused(sinks: Sinks):
    sinks.call("a", batch=7, step=NextStep.WRITE)
    for _ in range(2):
        with pytest.raises(ConfigError, match="was called twice for batch 7, with two DataFrames"):
            sinks.call("b", batch=7, step=NextStep.SKIP)
    sinks.call("b", batch=7, step=NextStep.SKIP, sink="others")
    sinks.call("b", batch=7, step=NextStep.SKIP, cluster="two")
    sinks.call("b", batch=8, step=NextStep.WRITE)


def test_a_second_call_is_refused_also_if_the_first_was_skipped(sinks: Sinks):
    sinks.call("a", batch=7, step=NextStep.SKIP)
    with pytest.raises(ConfigError, match="so only the rows of the first call are in Kafka"):
        sinks.call("b", batch=7, step=NextStep.SKIP)


def test_a_call_is_repeated_with_the_same_rows_or_by_the_next_run(sinks: Sinks):
    sinks.call("a", batch=7, step=NextStep.WRITE)
    assert refusal(sinks.call, "a", batch=7, step=NextStep.SKIP) is None
    assert refusal(sinks.call, "b", batch=7, step=NextStep.SKIP, run="2") is None


def test_a_call_that_committed_nothing_does_not_count(sinks: Sinks):
    sinks.call("a", batch=7, step=NextStep.WRITE)
    sinks.call("b", batch=7, step=NextStep.WRITE)
    with pytest.raises(ConfigError):
        sinks.call("a", batch=7, step=NextStep.SKIP)


def test_a_dataframe_is_forgotten_when_its_query_has_ended(sinks: Sinks):
    frame = Function()
    sinks.call(frame, batch=7, step=NextStep.WRITE)
    known = weakref.ref(frame)
    del frame
    sinks.claim(Function(), "p", "2", sink="others")
    gc.collect()
    assert known() is None
