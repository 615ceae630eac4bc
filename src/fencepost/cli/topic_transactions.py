"""Finds the open transactions that have records in a topic."""

from __future__ import annotations

import time
from typing import Final

from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.open_transactions import ONGOING, OpenTransaction
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.errors import UnsupportedBrokerError

# A coordinator writes the transaction markers to the partitions after it has answered the producer.
_MARKERS_SECONDS: Final = 20.0
_MARKERS_POLL_SECONDS: Final = 0.05


def open_transactions(config: ClientConfig, topic: str) -> list[OpenTransaction] | None:
    """Return the open transactions that have records in a topic, the oldest first; None before Kafka 3.0.

    Waits for transactions that are being ended.
    """
    deadline = time.monotonic() + _MARKERS_SECONDS
    with Admin(config) as admin:
        while True:
            try:
                found = [
                    transaction
                    for transaction in admin.open_transactions()
                    if any(name == topic for name, _ in transaction.partitions)
                ]
            except UnsupportedBrokerError:
                return None
            if all(transaction.state == ONGOING for transaction in found) or time.monotonic() > deadline:
                return found
            time.sleep(_MARKERS_POLL_SECONDS)
