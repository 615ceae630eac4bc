"""A sink's error for a batch whose attempts fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from fencepost.api.errors import ConfigError, FencepostError, RetriableError
from fencepost.engine.errors import BatchCancelledError
from fencepost.spark.config.progress import NextStep, Progress
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.sink.sink import Sink


def _failure_of(errors: Sequence[FencepostError]) -> FencepostError:
    """The error of a batch whose attempts fail with these errors, each before a record is written."""
    config = SinkConfig.from_options({"bootstrap.servers": "127.0.0.1:1", "topic": "t"})
    following: Iterator[FencepostError] = iter(errors)

    def decide(_last: Progress | None) -> NextStep:
        raise next(following)

    unused: Any = None
    with closing(Sink(config, config.key_of("run"))) as sink, pytest.raises(FencepostError) as raised:
        sink.write(unused, unused, Progress(), decide)
    return raised.value


@pytest.mark.parametrize(
    "others",
    [[RetriableError("two"), RetriableError("last")], [ConfigError("last")]],
    ids=["the last attempt", "an attempt that would fail again"],
)
def test_the_failure_of_the_first_attempt_is_reported_beside_another(others: list[FencepostError]):
    error = _failure_of([RetriableError("one"), *others])
    assert str(error) == "last"
    assert error.__notes__ == [f"This was attempt {1 + len(others)}. The first one failed otherwise: one"]


def test_a_batch_that_is_cancelled_has_no_notes_as_spark_searches_its_text():
    error = _failure_of([RetriableError("one"), BatchCancelledError("stopped")])
    assert not hasattr(error, "__notes__")


def test_a_failure_that_repeats_is_reported_once():
    error = _failure_of([RetriableError("one"), RetriableError("two"), RetriableError("one")])
    assert not hasattr(error, "__notes__")
