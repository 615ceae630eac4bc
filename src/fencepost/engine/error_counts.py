"""What went wrong with single records, under the names of Connect's task-error-metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Counts over the records of a batch.

    `failures` are all operations on records that failed, `retries` those that were tried again; `errors` are records
    that failed the task, `skipped` those that were left out, and `errors_logged` those that the log tells of.
    """

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    retries: int = 0
    errors_logged: int = 0
