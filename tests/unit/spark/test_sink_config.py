"""The options of a sink."""

from __future__ import annotations

import pytest

from fencepost.api.errors import ConfigError
from fencepost.api.secrets import SECRETS
from fencepost.spark.sink_config import SinkConfig

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_options_of_kafka_are_taken_with_and_without_their_prefix():
    config = SinkConfig.from_options(SERVERS | {"kafka.batch.size": "1000", "max.request.size": 2000})
    assert (config.producer.batch_size, config.producer.max_request_size) == (1000, 2000)
    assert config.producer.client.bootstrap_servers == ("127.0.0.1:9092",)


def test_a_transaction_may_be_open_as_long_as_brokers_allow_by_default():
    assert SinkConfig.from_options(SERVERS).producer.transaction_timeout_ms == 900_000
    assert SinkConfig.from_options(SERVERS | {"transaction.timeout.ms": 1}).producer.transaction_timeout_ms == 1


def test_options_without_a_value_count_as_unset():
    assert SinkConfig.from_options(SERVERS | {"topic": None, "name": None}).topic is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kafka.bootsrap.servers": "x:1"}, "did you mean bootstrap.servers"),
        ({"interceptor.classes": "A"}, "interceptor.classes has no counterpart here"),
        ({"topic": "a b"}, "the name of a topic"),
        ({"first.batch": -1}, "at least 0"),
        ({"acks": "1"}, "acks=1 cannot be exactly-once"),
        ({"transforms": "a"}, "transforms.a.type"),
    ],
)
def test_an_invalid_option_is_refused(options: dict[str, object], text: str):
    with pytest.raises(ConfigError, match=text):
        SinkConfig.from_options(SERVERS | options)


def test_passwords_are_hidden_from_then_on():
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter-22";'
    config = SinkConfig.from_options(
        SERVERS
        | {"kafka.security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas}
    )
    assert "hunter-22" not in SECRETS.hidden(f"failed for {jaas}")
    assert "hunter-22" not in repr(config)
