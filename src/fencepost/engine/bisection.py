"""Finds the refused rows of a batch by bisection, and defines how long a batch is retried. Pure.

A batch is transformed and converted as a whole. Only if that fails, its halves are processed separately, recursively,
down to single rows: a batch that passes costs one attempt, one with a single bad row among n about 1.5 log2(n) more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fencepost.api.errors import ConfigError, PluginError
from fencepost.config.error_handling import FOR_EVER
from fencepost.engine.errors import AllRowsRefusedError, SparkJobError
from fencepost.kafka.errors import KafkaError

T = TypeVar("T")

FIRST_DELAY_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Passed(Generic[T]):
    """Rows from `start` up to `stop` passed, with the `result`."""

    start: int
    stop: int
    result: T


@dataclass(frozen=True, slots=True)
class Refused:
    """Each of the rows from `start` up to `stop` is refused, for the same reason; usually one row."""

    start: int
    stop: int
    reason: Exception


def is_of_records(error: Exception) -> bool:
    """Return whether an error was caused by the processed records.

    A wrong configuration, a plugin that violates its contract, a lost or cancelled Spark job, and errors of Kafka are not.
    """
    return not isinstance(error, ConfigError | PluginError | SparkJobError | KafkaError | MemoryError)


def isolate(
    start: int, stop: int, attempt: Callable[[int, int], T], *, known: bool = False
) -> Iterator[Passed[T] | Refused]:
    """Yield the outcomes of the rows from `start` up to `stop`, in order and lazily.

    `attempt` processes a range of rows, or raises; errors that are not `is_of_records` are raised here as well. A row is
    refused only if an attempt with it alone failed, or the attempt refused all rows (AllRowsRefusedError). `known` skips an
    attempt if it is known that some of several rows are bad.
    """
    if not known or stop - start == 1:
        try:
            passed = Passed(start, stop, attempt(start, stop))
        except AllRowsRefusedError as error:
            yield Refused(start, stop, error.reason)
            return
        except Exception as error:
            if not is_of_records(error):
                raise
            if stop - start == 1:
                yield Refused(start, stop, error)
                return
        else:
            yield passed
            return
    middle = (start + stop) // 2
    left_passed = False
    for outcome in isolate(start, middle, attempt):
        left_passed = isinstance(outcome, Passed) and outcome.stop - outcome.start == middle - start
        yield outcome
    yield from isolate(middle, stop, attempt, known=left_passed)


class Retries:
    """The pauses between retries: 0.3 s, doubled up to a maximum, until a time-out.

    The time begins with the first failure and is not reset. `clock` returns seconds.
    """

    def __init__(self, timeout_ms: int, longest_ms: int, clock: Callable[[], float]) -> None:
        self._timeout_ms = timeout_ms
        self._longest_s = longest_ms / 1000
        self._clock = clock
        self._deadline: float | None = None
        self._delay_s = min(FIRST_DELAY_S, self._longest_s)

    def next_pause(self) -> float | None:
        """Return the seconds to wait before the next attempt, None for no attempt."""
        if self._timeout_ms == 0:
            return None
        pause, self._delay_s = self._delay_s, min(2 * self._delay_s, self._longest_s)
        if self._timeout_ms == FOR_EVER:
            return pause
        now = self._clock()
        if self._deadline is None:
            self._deadline = now + self._timeout_ms / 1000
        left = self._deadline - now
        return min(pause, left) if left > 0 else None
