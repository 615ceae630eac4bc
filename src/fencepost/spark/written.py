"""The counts of a sink's writes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a batch: records and bytes as sent, both 0 if it was `skipped` because it is in Kafka."""

    records: int = 0
    bytes: int = 0
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class SinkStatistics:
    """The commits of a sink in one run of its query. `bytes` is the size of the record batches as sent.

    `transactions` counts commits, `retries` attempts that were aborted and repeated, and `skipped` batches that were in
    Kafka already. `last_batch` is the last batch in Kafka, `last_commit_ms` the time of the last commit in milliseconds
    since the epoch; both are None before the first.
    """

    sink: str
    transactional_id: str
    records: int = 0
    bytes: int = 0
    transactions: int = 0
    retries: int = 0
    skipped: int = 0
    last_batch: int | None = None
    last_commit_ms: int | None = None
