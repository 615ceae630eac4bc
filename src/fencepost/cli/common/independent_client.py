"""Reads topics with confluent-kafka: a client that shares no code with fencepost checks fencepost's records.

Importing this raises ConfigError if that package is not installed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final, cast

from fencepost.api.errors import ConfigError
from fencepost.api.extras import how_to_install
from fencepost.cli.common.topic_transactions import open_transactions
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.errors import BrokerUnavailableError, KafkaError

try:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition
    from confluent_kafka import KafkaError as ClientError
except ModuleNotFoundError as error:
    raise ConfigError(
        f"This command reads topics back with confluent-kafka, which is not installed: {how_to_install('demo')}"
    ) from error

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

_ANSWER_SECONDS: Final = 30.0
# If neither a record nor the end of a partition arrives for this long, the brokers do not answer any more.
_SILENCE_SECONDS: Final = 60.0
_RECORDS_AT_ONCE: Final = 10_000
# One call of `consume` collects records for at most this time.
_WAIT_SECONDS: Final = 0.02
# A read ends at known offsets, so brokers need not wait for records after these.
_FETCH_WAIT_MS: Final = 10


class MissingTopicError(KafkaError):
    """The topic to read does not exist."""


def open_consumer(config: ClientConfig, isolation: str = READ_COMMITTED, *, fetch_wait_ms: int = 500) -> Consumer:
    """Return a consumer that commits nothing, to be assigned partitions. Raises ConfigError for OAUTHBEARER.

    `fetch_wait_ms` is how long a broker waits for new records when a fetch has reached the end of the log.
    """
    return Consumer(
        {
            **_settings(config),
            "group.id": "fencepost-check",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": fetch_wait_ms,
            "topic.metadata.refresh.interval.ms": 500,
            "allow.auto.create.topics": False,
        }
    )


def partitions_of(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic, each at its beginning; an empty list if the topic does not exist."""
    # A request by name might create the topic.
    known = consumer.list_topics(timeout=_ANSWER_SECONDS).topics
    if topic not in known:
        return []
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in sorted(known[topic].partitions)]


def read(config: ClientConfig, topic: str, ends: dict[int, int], isolation: str = READ_COMMITTED) -> Iterator[Message]:
    """Yield the records before `ends`, by partition; see `ends_of`. Raises BrokerUnavailableError or KafkaError."""
    left = {partition for partition, end in ends.items() if end > 0}
    if not left:
        return
    with closing(open_consumer(config, isolation, fetch_wait_ms=_FETCH_WAIT_MS)) as consumer:
        # If librdkafka does not know a partition's leader, it asks for the partition's beginning only half a second
        # later.
        consumer.assign([each for each in partitions_of(consumer, topic) if each.partition in left])
        heard = time.monotonic()
        while left:
            for message in consumer.consume(_RECORDS_AT_ONCE, _WAIT_SECONDS):
                heard = time.monotonic()
                partition, offset = place_of(message)
                _raise_unless_end(message, topic)
                if message.error() is None and offset < ends[partition]:
                    yield message
                elif partition in left:
                    left.discard(partition)
                    consumer.pause([TopicPartition(topic, partition)])
            if time.monotonic() - heard > _SILENCE_SECONDS:
                raise BrokerUnavailableError(
                    f"Topic {topic}: no data from its partitions {sorted(left)} for {_SILENCE_SECONDS:.0f} s: check "
                    "that the brokers that lead them run"
                )


def place_of(message: Message) -> tuple[int, int]:
    """Return the partition and offset of a message."""
    return cast("int", message.partition()), cast("int", message.offset())


def ends_of(config: ClientConfig, topic: str) -> dict[int, int]:
    """Return the last stable offset of each partition of a topic: its end, or the first record of an open transaction.

    Waits for transactions that are being ended. Raises MissingTopicError or BrokerUnavailableError.
    """
    # A partition whose records were all deleted needs no read.
    limits = _limits(config, topic, READ_COMMITTED)
    return {partition: high if high > low else 0 for partition, (low, high) in limits.items()}


def count_behind_open_transactions(config: ClientConfig, topic: str) -> int:
    """Return how many offsets of a topic follow its last stable offsets. Raises the errors of `ends_of`."""
    stable, written = _limits(config, topic, READ_COMMITTED), _limits(config, topic, READ_UNCOMMITTED)
    return sum(max(0, written[partition][1] - end) for partition, (_, end) in stable.items() if partition in written)


def _limits(config: ClientConfig, topic: str, isolation: str) -> dict[int, tuple[int, int]]:
    """The first and the end offset of each partition."""
    if isolation == READ_COMMITTED:
        open_transactions(config, topic)
    with closing(open_consumer(config, isolation)) as consumer:
        try:
            limits = {
                each.partition: consumer.get_watermark_offsets(
                    TopicPartition(topic, each.partition), timeout=_ANSWER_SECONDS
                )
                for each in partitions_of(consumer, topic)
            }
        except KafkaException as error:
            raise _refusal(error.args[0], topic) from error
    if not limits:
        raise MissingTopicError(
            f"Topic {topic} does not exist on this cluster, or the principal may not DESCRIBE it: check the name, and the "
            "addresses of the brokers"
        )
    return limits


def _raise_unless_end(message: Message, topic: str) -> None:
    error = message.error()
    if error is not None and error.code() != ClientError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name
        raise _refusal(error, topic)


def _refusal(error: ClientError, topic: str) -> KafkaError:
    kind = BrokerUnavailableError if error.retriable() or error.code() < 0 else KafkaError
    return kind(
        f"Topic {topic} cannot be read: {error.str()} ({error.name()}). Check the addresses of the brokers, and that the "
        "principal has READ and DESCRIBE on the topic"
    )


def _settings(config: ClientConfig) -> dict[str, Any]:
    """Return the equivalent settings of librdkafka."""
    settings: dict[str, Any] = {
        "bootstrap.servers": ",".join(config.bootstrap_servers),
        "client.id": config.client_id,
        "security.protocol": config.security_protocol,
        # librdkafka logs nothing, because exceptions report all errors.
        "log_level": 0,
    }
    if config.tls is not None:
        given = {
            "ssl.ca.pem": config.tls.authorities,
            "ssl.certificate.pem": config.tls.certificate,
            "ssl.key.pem": config.tls.private_key,
            "ssl.key.password": config.tls.private_key_password,
            "ssl.endpoint.identification.algorithm": "https" if config.tls.check_hostname else "none",
        }
        settings |= {name: value for name, value in given.items() if value is not None}
    if config.sasl is not None:
        if config.sasl.oauth is not None:
            raise ConfigError(
                "sasl.mechanism=OAUTHBEARER is not available for reading a topic back: use SCRAM, PLAIN or a certificate",
                name="sasl.mechanism",
            )
        settings |= {
            "sasl.mechanisms": config.sasl.mechanism,
            "sasl.username": config.sasl.username,
            "sasl.password": config.sasl.password,
        }
    return settings
