"""Warns of a batch that is retried for long. The batch fails only after `delivery.timeout.ms`, which may be minutes."""

from __future__ import annotations

import logging
from typing import Final

from fencepost.kafka.producer.partition_queue import PartitionQueue

_log: Final = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""How long a batch may be retried without a warning: elections and restarts of brokers take a moment."""


class RetryWarning:
    """Warns once for each writer, because the fault that delays one partition often delays others as well."""

    def __init__(self, delivery_timeout_ms: int) -> None:
        self._delivery_timeout_ms = delivery_timeout_ms
        self._warned = False

    def check(self, queue: PartitionQueue, now: float) -> None:
        """Warn if the oldest batch of a queue has been failing for long. `now` is in seconds of the monotonic clock."""
        since = queue.failing_since
        if self._warned or since is None or now - since < PATIENCE_S:
            return
        self._warned = True
        topic, partition = queue.topic_partition
        _log.warning(
            "A batch for %s-%d has failed for %.0f s, and is sent again until delivery.timeout.ms=%d is over. The last problem "
            "was: %s. Check the brokers' health", topic, partition, now - since, self._delivery_timeout_ms, queue.last_problem,
        )  # fmt: skip
