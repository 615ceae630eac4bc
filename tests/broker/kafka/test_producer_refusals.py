"""A producer's error names the topic, setting or broker that it cannot use."""

from __future__ import annotations

import pytest

from fencepost.api.errors import ConfigError
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.errors import (
    BrokerUnavailableError,
    TopicNotFoundError,
)
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.support.topics import Topics, unique
from tests.support.writing import (
    open_producer,
    producer_config,
    write_in_transaction,
)


def test_a_topic_that_was_deleted_is_named_under_transaction_version_1_as_well(tv1_broker: EmbeddedBroker) -> None:
    """Under version 1 the coordinator finds the topic missing.

    The producer must not retry for `delivery.timeout.ms`.
    """
    servers = tv1_broker.bootstrap_servers
    topic = Topics(servers).create()
    with open_producer(producer_config(servers, delivery_timeout_ms=20_000), unique("gone")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"before"])
        producer.commit_transaction()
        Topics(servers).delete(topic)
        producer.begin_transaction()
        with pytest.raises(TopicNotFoundError, match=topic):
            write_in_transaction(producer, topic, [b"after"])
        producer.abort_transaction()


def test_a_time_out_that_the_broker_does_not_allow_names_both_settings(broker: EmbeddedBroker) -> None:
    config = producer_config(broker.bootstrap_servers, transaction_timeout_ms=2_000_000_000)

    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms=2000000000 .* transaction\.max\.timeout\.ms"):
        TransactionalProducer(config, unique("task")).init_transactions()


def test_an_unreachable_broker_is_named() -> None:
    config = producer_config("127.0.0.1:1", max_block_ms=300)

    with pytest.raises(BrokerUnavailableError, match=r"bootstrap\.servers=127\.0\.0\.1:1"):
        TransactionalProducer(config, unique("task")).init_transactions()
