"""Batches and records at the size limits of topics and producers."""

from __future__ import annotations

import itertools
import os
from contextlib import closing

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.errors import RecordTooLargeError
from fencepost.kafka.records.compression import Compression
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.processes import wait_for
from tests.support.security import SecuredBroker
from tests.support.topics import Topics, unique
from tests.support.writing import (
    numbered,
    open_producer,
    producer_config,
    records,
    write_in_transaction,
    write_values,
)


def set_message_bytes(servers: str, topic: str, size: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    admin.incremental_alter_configs([resource])[resource].result(120)
    wait_for(lambda: Topics(servers).config(topic)["max.message.bytes"] == str(size))


def test_batches_keep_to_the_topic_s_limit(broker: EmbeddedBroker, topics: Topics) -> None:
    topic = topics.create(config={"max.message.bytes": "5000"})
    written = numbered(2_000)
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        acks = write_in_transaction(producer, topic, written)
        producer.commit_transaction()

    assert max(ack.size for ack in acks) <= 5_000
    assert values(read_topic(broker.bootstrap_servers, topic)) == written


def test_a_record_above_the_topic_s_limit_names_topic_size_limit_and_setting(
    broker: EmbeddedBroker, topics: Topics
) -> None:
    topic = topics.create(config={"max.message.bytes": "5000"})
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        with pytest.raises(RecordTooLargeError) as raised:
            write_in_transaction(producer, topic, [b"fits", b"x" * 6_000])
        producer.abort_transaction()

    error = raised.value
    assert (error.topic, error.limit, error.setting) == (topic, 5_000, f"max.message.bytes of topic {topic}")
    assert 6_000 < error.size < 6_200
    assert values(read_topic(broker.bootstrap_servers, topic)) == []


def test_a_record_above_the_producer_s_limit_names_its_setting(broker: EmbeddedBroker, topic: str) -> None:
    with open_producer(producer_config(broker.bootstrap_servers, max_request_size=4_000), unique("task")) as producer:
        producer.begin_transaction()
        with pytest.raises(RecordTooLargeError, match=r"4000 bytes that producer\.override\.max\.request\.size"):
            write_in_transaction(producer, topic, [b"x" * 5_000])


def test_a_record_above_the_batch_size_is_a_separate_batch(broker: EmbeddedBroker, topic: str) -> None:
    written = [b"small", b"x" * 5_000, b"small", b"y" * 9_000]
    with open_producer(producer_config(broker.bootstrap_servers, batch_size=1_000), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, written)
        producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == written


def test_a_large_record_that_its_codec_makes_small_enough_is_sent(broker: EmbeddedBroker, topics: Topics) -> None:
    topic = topics.create(config={"max.message.bytes": "5000"})
    config = producer_config(broker.bootstrap_servers, compression=Compression.GZIP)
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"x" * 20_000])
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
            write_in_transaction(producer, topic, [os.urandom(20_000)])
        producer.abort_transaction()
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"x" * 20_000])
        producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"x" * 20_000]


def test_where_many_records_follow_a_partition_s_first_batch_is_small(broker: EmbeddedBroker, topic: str) -> None:
    written = numbered(10_000)
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        for _ in range(2):
            producer.begin_transaction()
            first, *others = write_in_transaction(producer, topic, written)
            others += write_in_transaction(producer, topic, written)
            producer.commit_transaction()
            assert first.size < 40_000
            assert min(ack.size for ack in others) > 400_000

    assert values(read_topic(broker.bootstrap_servers, topic)) == written * 4


def test_the_rest_of_full_batches_waits_for_the_next_records(broker: EmbeddedBroker, topic: str) -> None:
    written = numbered(45_000)
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        with closing(producer.writer()) as writer:
            write_values(writer, topic, written, step=10_000)
            acks = writer.flush()
        producer.acknowledge(acks)
        producer.commit_transaction()

    # Each slice of 10,000 is a little larger than a batch may be.
    assert min(ack.size for ack in acks[1:-1]) > 700_000
    assert values(read_topic(broker.bootstrap_servers, topic)) == written


def test_the_rest_of_several_full_batches_is_divided_among_them(broker: EmbeddedBroker, topic: str) -> None:
    written = numbered(40_000)
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        with closing(producer.writer()) as writer:
            write_values(writer, topic, written, step=20_000)
            acks = writer.flush()
        producer.acknowledge(acks)
        producer.commit_transaction()

    # Each slice is a little larger than two batches may be.
    assert 20_000 in itertools.accumulate(ack.count for ack in acks)
    assert min(ack.size for ack in acks[1:]) > 600_000
    assert values(read_topic(broker.bootstrap_servers, topic)) == written


def test_the_rest_of_full_batches_is_sent_if_memory_is_short(broker: EmbeddedBroker, topics: Topics) -> None:
    topic = topics.create(partitions=4)
    config = producer_config(broker.bootstrap_servers, buffer_memory=100_000)
    written = [numbered(10_000, start=partition * 10_000) for partition in range(4)]
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        with closing(producer.writer()) as writer:
            for partition, of_partition in enumerate(written):
                write_values(writer, topic, of_partition, partition=partition, step=10_000)
                assert writer._gathered_bytes <= config.buffer_memory
            producer.acknowledge(writer.flush())
        producer.commit_transaction()

    assert sorted(values(read_topic(broker.bootstrap_servers, topic))) == sorted(itertools.chain(*written))


def test_a_partition_s_first_record_may_be_large(broker: EmbeddedBroker, topic: str) -> None:
    written = [os.urandom(600_000), *numbered(10)]
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        acks = write_in_transaction(producer, topic, written)
        producer.commit_transaction()

    assert [ack.count for ack in acks] == [1, 10]
    assert values(read_topic(broker.bootstrap_servers, topic)) == written


def test_a_record_is_written_once_the_topic_s_limit_is_raised_as_the_message_says(
    broker: EmbeddedBroker, topics: Topics
) -> None:
    topic = topics.create(config={"max.message.bytes": "5000"})
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        with pytest.raises(RecordTooLargeError):
            write_in_transaction(producer, topic, [b"x" * 6_000])
        producer.abort_transaction()
        set_message_bytes(broker.bootstrap_servers, topic, 10_000)
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"x" * 6_000])
        producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"x" * 6_000]


@pytest.mark.parametrize("first_of_transaction", [True, False])
def test_batches_that_become_too_large_meanwhile_are_split(
    broker: EmbeddedBroker, topics: Topics, first_of_transaction: bool
) -> None:
    topic = topics.create(config={"max.message.bytes": "50000"})
    written = numbered(3_000)
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        # The producer remembers the topic's limit until the broker refuses a batch.
        write_in_transaction(producer, topic, [b"first"])
        if first_of_transaction:
            producer.commit_transaction()
            producer.begin_transaction()
        set_message_bytes(broker.bootstrap_servers, topic, 6_000)
        write_in_transaction(producer, topic, written)
        producer.commit_transaction()

    assert values(read_topic(broker.bootstrap_servers, topic)) == [b"first", *written]


def writable(secured: SecuredBroker, message_bytes: str) -> tuple[str, str]:
    """A topic and a transactional id that the worker may write to. It may not describe the topic's configuration."""
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create(config={"max.message.bytes": message_bytes})
    transactional_id = unique("task")
    for operation in (AclOperation.WRITE, AclOperation.DESCRIBE):
        secured.allow("worker", operation, ResourceType.TRANSACTIONAL_ID, transactional_id)
        secured.allow("worker", operation, ResourceType.TOPIC, topic)
    return topic, transactional_id


def test_the_broker_checks_sizes_if_the_topics_limit_is_unknown(secured: SecuredBroker) -> None:
    topic, transactional_id = writable(secured, "3000000")
    properties = secured.properties("worker") | {"max.request.size": "5000000"}
    written = [b"small", os.urandom(2_000_000), b"small"]
    with open_producer(ProducerConfig.from_properties(properties, where="test"), transactional_id) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, written)
        producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(RecordTooLargeError) as raised:
            write_in_transaction(producer, topic, [os.urandom(4_000_000)])
        producer.abort_transaction()

    assert (raised.value.topic, raised.value.limit) == (topic, None)
    assert raised.value.setting == f"max.message.bytes of topic {topic}"
    assert values(read_topic(secured.sasl_servers, topic, settings=secured.rdkafka())) == written


def test_without_the_right_to_describe_the_topic_its_batches_are_split(secured: SecuredBroker) -> None:
    topic, transactional_id = writable(secured, "20000")
    config = ProducerConfig.from_properties(secured.properties("worker"), where="test")
    written = numbered(1_000)
    with open_producer(config, transactional_id) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, written)
        producer.commit_transaction()

    assert values(read_topic(secured.sasl_servers, topic, settings=secured.rdkafka())) == written


def test_buffered_records_of_many_partitions_are_bounded(broker: EmbeddedBroker, topics: Topics) -> None:
    topic = topics.create(partitions=20)
    config = producer_config(broker.bootstrap_servers, buffer_memory=100_000)
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        with closing(producer.writer()) as writer:
            for start in range(0, 20_000, 100):
                writer.write(topic, start // 100 % 20, records(numbered(100, start=start)))
                assert writer._gathered_bytes <= 100_000
            producer.acknowledge(writer.flush())
        producer.commit_transaction()

    assert sorted(map(bytes, values(read_topic(broker.bootstrap_servers, topic)))) == numbered(20_000)  # type: ignore[arg-type]


def test_records_of_many_small_slices_make_few_batches(broker: EmbeddedBroker, topic: str) -> None:
    written = numbered(20_000)
    with open_producer(producer_config(broker.bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        writer = producer.writer()
        write_values(writer, topic, written, step=10)
        acks = writer.flush()
        writer.close()
        producer.acknowledge(acks)
        producer.commit_transaction()

    # The first batch is small, so about half a batch remains, which is sent as it is.
    assert len(acks) <= 6
    assert all(ack.size <= 1_048_576 for ack in acks)
    assert_exactly_once(values(read_topic(broker.bootstrap_servers, topic)), written)
