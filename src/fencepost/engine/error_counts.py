"""Counts errors of records, under the names of Connect's task-error-metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Numbers of errors of a batch's records.

    `failures` are all failed operations on records, `retries` the operations that were retried. `errors` are records
    that failed the task, `skipped` are records that were skipped, and `errors_logged` are records that were logged.
    """

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    retries: int = 0
    errors_logged: int = 0

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        return ErrorCounts(
            failures=self.failures + other.failures,
            errors=self.errors + other.errors,
            skipped=self.skipped + other.skipped,
            retries=self.retries + other.retries,
            errors_logged=self.errors_logged + other.errors_logged,
        )
