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

    Waits until transactions that are being committed or aborted at the time of the call have ended. Transactions whose
    commit or abort begins later are left out, because a topic in use always has some.
    """
    deadline = time.monotonic() + _MARKERS_SECONDS
    ending: set[tuple[str, int]] | None = None
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
            now = {_identity(transaction) for transaction in found if transaction.state != ONGOING}
            ending = now if ending is None else ending & now
            if not ending or time.monotonic() > deadline:
                return [each for each in found if each.state == ONGOING or _identity(each) in ending]
            time.sleep(_MARKERS_POLL_SECONDS)


def _identity(transaction: OpenTransaction) -> tuple[str, int]:
    return transaction.transactional_id, transaction.started_ms
