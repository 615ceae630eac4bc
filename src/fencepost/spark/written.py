"""The counts of a sink's writes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a batch: records, and bytes as sent.

    Both numbers are 0 if the batch was `skipped` because it is already in Kafka.
    """

    records: int = 0
    bytes: int = 0
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class SinkStatistics:
    """The commits of a sink in one run of its query. `bytes` is the size of the record batches as sent.

    `transactions` counts commits. `retries` counts attempts that were aborted and repeated. `skipped` counts batches
    that were already in Kafka. `last_batch` is the last batch in Kafka. `last_commit_ms` is the time of the last
    commit, in milliseconds since the epoch. Both are None before the first commit.
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
