"""Transactional producers of confluent-kafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

_SECONDS = 60.0


def transactional_producer(bootstrap_servers: str, transactional_id: str, **settings: Any) -> Producer:
    """A producer that owns its transactional id and does not log; `settings` have underscores for dots."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, "log_level": 0, **given}
    )
    # Without a connection, librdkafka searches the coordinator only every half second.
    producer.list_topics(timeout=_SECONDS)
    producer.init_transactions(_SECONDS)
    return producer
