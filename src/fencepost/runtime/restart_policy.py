"""When a task that failed is started again in place, and how long it waits before that."""

from __future__ import annotations

from typing import Final

from fencepost.api.errors import RetriableError
from fencepost.kafka.errors import TransactionAbortableError, UnknownOutcomeError
from fencepost.spark.errors import SparkJobError, SparkStartError

FIRST_DELAY_S: Final = 0.5
LONGEST_DELAY_S: Final = 30.0
MOST_FAILURES: Final = 10
"""Failures in a row, with no commit between them, before a task is FAILED."""

_PASSING: Final = (RetriableError, TransactionAbortableError, UnknownOutcomeError, SparkJobError)


def may_pass(error: Exception) -> bool:
    """Say whether a failure may go away when the task goes on from its committed offsets.

    Being fenced, an expired transaction, data or configuration that do not fit, a Spark that does not start, and
    whatever a connector's own code raises stay as they are.
    """
    return isinstance(error, _PASSING) and not isinstance(error, SparkStartError)


class RestartPolicy:
    """Counts the failures in a row."""

    def __init__(self) -> None:
        self._failures = 0

    def progressed(self) -> None:
        """Take note of a commit."""
        self._failures = 0

    def failed(self, error: Exception) -> float | None:
        """Return how many seconds to wait before the next start; None if there should be none."""
        if not may_pass(error):
            return None
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            return None
        return min(FIRST_DELAY_S * 2.0 ** (self._failures - 1), LONGEST_DELAY_S)
