"""What a sink has written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a batch: records and bytes as sent, both 0 if it was `skipped` because it is in Kafka."""

    records: int = 0
    bytes: int = 0
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class SinkStatistics:
    """What a sink has committed in one run of its query. `bytes` is the size of the record batches as sent.

    `transactions` is the number of commits, `retries` that of attempts that were aborted and repeated, and `skipped` that
    of batches that were in Kafka. `last_batch` is the last batch in Kafka, `last_commit_ms` the time of the last commit in
    milliseconds since the epoch; both are None before the first.
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
