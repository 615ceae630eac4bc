"""Counts errors of records, under the names of Connect's task-error-metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Counts over the records of a batch.

    `failures` are all failed operations on records, `retries` the retried ones; `errors` are records that failed the
    task, `skipped` those that were skipped, and `errors_logged` those that were logged.
    """

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    retries: int = 0
    errors_logged: int = 0
