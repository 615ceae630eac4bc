"""Transactions without faults, under both transaction versions; confluent-kafka reads them back."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.errors import (
    InvalidProducerEpochError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionExpiredError,
)
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import TransactionState, TransactionVersion
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.records.columns import Records
from fencepost.kafka.records.compression import Compression
from fencepost.kafka.transport.pool import POOL
from tests.support.checker import read_topic, values
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.writing import (
    numbered,
    open_producer,
    producer_config,
    records,
    write_in_transaction,
    write_values,
)


@pytest.fixture(params=TransactionVersion, ids=lambda version: version.name)
def version(request: pytest.FixtureRequest) -> TransactionVersion:
    """A transaction version, with a broker that uses it."""
    return TransactionVersion(request.param)


@pytest.fixture
def servers(request: pytest.FixtureRequest, version: TransactionVersion) -> str:
    if version is TransactionVersion.V2:
        return str(request.getfixturevalue("bootstrap_servers"))
    return str(request.getfixturevalue("tv1_broker").bootstrap_servers)


@pytest.fixture
def producer(servers: str) -> Iterator[TransactionalProducer]:
    with open_producer(producer_config(servers), unique("task")) as producer:
        yield producer


def test_committed_transactions_are_visible_once_and_in_order(
    servers: str, producer: TransactionalProducer, version: TransactionVersion
) -> None:
    topic = Topics(servers).create()
    written: list[bytes] = []

    for transaction in range(4):
        assert producer.begin_transaction().version is version
        batch = numbered(25_000, start=transaction * 25_000)
        acks = write_in_transaction(producer, topic, batch)
        assert sum(ack.count for ack in acks) == len(batch)
        producer.commit_transaction()
        written += batch

    assert values(read_topic(servers, topic)) == written


def test_an_aborted_transaction_is_never_visible(servers: str, producer: TransactionalProducer) -> None:
    topic = Topics(servers).create()

    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"aborted"])
    producer.abort_transaction()
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"committed"])
    producer.commit_transaction()

    assert values(read_topic(servers, topic)) == [b"committed"]
    assert values(read_topic(servers, topic, isolation="read_uncommitted")) == [b"aborted", b"committed"]


def test_a_transaction_without_records_can_be_committed_and_aborted(
    servers: str, producer: TransactionalProducer
) -> None:
    topic = Topics(servers).create()

    for end in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        end()
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"v"])
    producer.commit_transaction()

    assert values(read_topic(servers, topic)) == [b"v"]


def test_several_writers_write_into_one_transaction(servers: str, producer: TransactionalProducer) -> None:
    topic = Topics(servers).create(partitions=8)
    everything = {partition: numbered(5_000, start=partition * 5_000) for partition in range(8)}

    for _ in range(2):
        # The transaction is pickled, as for an executor.
        producer.begin_transaction()
        with producer.lent() as lent:
            transaction = pickle.loads(pickle.dumps(lent))  # noqa: S301 - our own

        def write(partitions: range, transaction: object = transaction) -> object:
            writer = RecordWriter(producer_config(servers), transaction)  # type: ignore[arg-type]
            for partition in partitions:
                write_values(writer, topic, everything[partition], partition=partition)
            acks = writer.flush()
            writer.close()
            return acks

        with ThreadPoolExecutor(4) as pool:
            for acks in pool.map(write, [range(first, first + 2) for first in range(0, 8, 2)]):
                producer.acknowledge(acks)  # type: ignore[arg-type]
        producer.commit_transaction()

    found = read_topic(servers, topic)
    for partition, expected in everything.items():
        assert [record.value for record in found if record.partition == partition] == expected * 2


def test_later_writers_of_a_transaction_continue_after_the_earlier_ones(
    servers: str, producer: TransactionalProducer
) -> None:
    topic = Topics(servers).create()
    written = numbered(3_000)

    producer.begin_transaction()
    for start in range(0, 3_000, 1_000):
        write_in_transaction(producer, topic, written[start : start + 1_000])
    assert producer.transaction.sequences == {(topic, 0): 3_000}
    producer.commit_transaction()

    assert values(read_topic(servers, topic)) == written


def test_acks_have_the_offsets_of_the_records(servers: str, producer: TransactionalProducer) -> None:
    topic = Topics(servers).create(partitions=2)

    producer.begin_transaction()
    acks = write_in_transaction(producer, topic, [b"a", b"b"], partition=1)
    acks += write_in_transaction(producer, topic, [b"c"], partition=1)
    producer.commit_transaction()

    (first, second) = acks
    found = read_topic(servers, topic)
    assert [(first.base_offset, first.count), (second.base_offset, second.count)] == [(0, 2), (2, 1)]
    assert {record.partition for record in found} == {first.partition} == {1}
    assert found[0].timestamp == first.timestamp


def test_a_writer_of_an_ended_transaction_is_refused(servers: str, producer: TransactionalProducer) -> None:
    topic = Topics(servers).create()
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"committed"])
    late = RecordWriter(producer.config, producer.transaction)
    producer.commit_transaction()
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"next"])

    late.write(topic, 0, records([b"late"]))
    with pytest.raises((InvalidProducerEpochError, TransactionAbortableError)):
        late.flush()
    late.close()
    producer.commit_transaction()

    assert values(read_topic(servers, topic)) == [b"committed", b"next"]


def test_a_writer_of_an_aborted_transaction_is_refused_in_the_next(
    servers: str, producer: TransactionalProducer
) -> None:
    topic = Topics(servers).create(partitions=2)
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"aborted"])
    late = RecordWriter(producer.config, producer.transaction)
    producer.abort_transaction()
    producer.begin_transaction()
    write_in_transaction(producer, topic, [b"next"])

    for partition in range(2):
        late.write(topic, partition, records([b"late"]))
    with pytest.raises((InvalidProducerEpochError, TransactionAbortableError)):
        late.flush()
    late.close()
    producer.commit_transaction()

    assert values(read_topic(servers, topic)) == [b"next"]


@pytest.mark.parametrize("ending", ["write", "commit", "abort"])
def test_a_newer_instance_fences_the_older(servers: str, ending: str) -> None:
    topic, transactional_id = Topics(servers).create(), unique("task")
    config = producer_config(servers)
    with open_producer(config, transactional_id) as older:
        older.begin_transaction()
        write_in_transaction(older, topic, [b"older"])
        with open_producer(config, transactional_id) as newer:
            with pytest.raises(ProducerFencedError, match=f"newer instance .* {transactional_id}"):
                _end(older, topic, ending)
            assert older.state is TransactionState.FENCED
            newer.begin_transaction()
            write_in_transaction(newer, topic, [b"newer"])
            newer.commit_transaction()

    assert values(read_topic(servers, topic)) == [b"newer"]


def test_a_fenced_instance_cannot_begin_a_new_transaction_undetected(servers: str) -> None:
    topic, transactional_id = Topics(servers).create(), unique("task")
    config = producer_config(servers)
    with open_producer(config, transactional_id) as older:
        older.begin_transaction()
        write_in_transaction(older, topic, [b"before"])
        older.commit_transaction()
        with open_producer(config, transactional_id), pytest.raises(ProducerFencedError):
            _begin_and_write(older, topic)

    assert values(read_topic(servers, topic)) == [b"before"]


@pytest.mark.parametrize("ending", ["write", "commit"])
def test_an_expired_transaction_says_how_to_prevent_it(servers: str, ending: str) -> None:
    topic = Topics(servers).create()
    with open_producer(producer_config(servers, transaction_timeout_ms=300), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"expired"])
        # Once the transaction is aborted, its record no longer holds up consumers.
        with open_producer(producer_config(servers), unique("other")) as other:
            other.begin_transaction()
            write_in_transaction(other, topic, [b"other"])
            other.commit_transaction()
        wait_for(lambda: values(read_topic(servers, topic)) == [b"other"])

        with pytest.raises(TransactionExpiredError) as raised:
            _end(producer, topic, ending)

        assert producer.state is TransactionState.FAILED
        assert raised.value.timeout_ms == 300
        for remedy in ("transaction.timeout.ms", "interval.ms", "boundary=poll", "batch.size", "batches smaller"):
            assert remedy in str(raised.value)
        producer.init_transactions()
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"again"])
        producer.commit_transaction()

    assert values(read_topic(servers, topic)) == [b"other", b"again"]


def _begin_and_write(producer: TransactionalProducer, topic: str) -> None:
    producer.begin_transaction()
    _end(producer, topic, "write")


def _end(producer: TransactionalProducer, topic: str, ending: str) -> None:
    if ending == "commit":
        producer.commit_transaction()
    elif ending == "abort":
        producer.abort_transaction()
    else:
        writer = producer.writer()
        writer.write(topic, 0, records([b"too late"]))
        with pytest.raises(InvalidProducerEpochError) as refused:
            writer.flush()
        writer.close()
        raise producer.resolve(refused.value)


def test_closing_a_producer_aborts_the_open_transaction(servers: str) -> None:
    topic = Topics(servers).create()
    with open_producer(producer_config(servers), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"open"])
    with open_producer(producer_config(servers), unique("other")) as other:
        other.begin_transaction()
        write_in_transaction(other, topic, [b"other"])
        other.commit_transaction()

    # An open transaction would hide the other producer's record.
    wait_for(lambda: values(read_topic(servers, topic)) == [b"other"])


@pytest.mark.parametrize("compression", Compression)
def test_records_of_each_codec_are_read_back(servers: str, compression: Compression) -> None:
    topic = Topics(servers).create()
    written = numbered(5_000)
    with open_producer(producer_config(servers, compression=compression), unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, written)
        producer.commit_transaction()

    assert values(read_topic(servers, topic)) == written


def test_keys_headers_nulls_and_timestamps_arrive(servers: str, producer: TransactionalProducer) -> None:
    topic = Topics(servers).create()
    headers = pa.array(
        [[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], None],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    columns = Records(
        value=pa.array([b"v", None], pa.binary()),
        key=pa.array([None, b"k"], pa.binary()),
        timestamp=pa.array([1_700_000_000_000, 1_700_000_000_001], pa.int64()),
        headers=headers,
    )

    producer.begin_transaction()
    writer = producer.writer()
    writer.write(topic, 0, columns)
    producer.acknowledge(writer.flush())
    writer.close()
    producer.commit_transaction()

    (first, second) = read_topic(servers, topic)
    assert (first.key, first.value, first.timestamp) == (None, b"v", 1_700_000_000_000)
    assert first.headers == (("h", b"1"), ("n", None))
    assert (second.key, second.value, second.timestamp, second.headers) == (b"k", None, 1_700_000_000_001, ())


def test_calls_out_of_order_are_refused(servers: str) -> None:
    producer = TransactionalProducer(producer_config(servers), unique("task"))

    with pytest.raises(IllegalStateError, match="UNINITIALIZED"):
        producer.begin_transaction()
    producer.init_transactions()
    with pytest.raises(IllegalStateError, match="READY"):
        producer.commit_transaction()
    producer.close()
    with pytest.raises(IllegalStateError, match="CLOSED"):
        producer.init_transactions()


def test_the_last_producer_of_a_client_leaves_no_connection(servers: str) -> None:
    client_id = unique("client")
    config = producer_config(servers)
    config = replace(config, client=replace(config.client, client_id=client_id))
    with open_producer(config, unique("task")) as first, open_producer(config, unique("task")) as second:
        for producer in (first, second):
            producer.begin_transaction()
            write_in_transaction(producer, Topics(servers).create(), [b"v"])
            producer.commit_transaction()
    left = [address for client, address in POOL._idle if client.client_id == client_id]
    assert left == []


def test_the_rest_of_an_abandoned_transaction_cannot_be_committed(
    servers: str, producer: TransactionalProducer
) -> None:
    """Under version 1 an abort keeps the epoch, so later records would be a transaction without its first half."""
    topic, offsets = Topics(servers).create(), Topics(servers).create()
    producer.begin_transaction()
    write_in_transaction(producer, topic, numbered(10))
    producer.abandon()
    # Version 2 refuses these records already.
    with suppress(InvalidProducerEpochError):
        write_in_transaction(producer, offsets, [b"10"])
    with pytest.raises(IllegalStateError, match="was abandoned"):
        producer.commit_transaction()
    producer.close()
    assert read_topic(servers, topic) == []
    assert read_topic(servers, offsets) == []


def test_a_producer_that_was_abandoned_does_not_take_its_transactional_id_back(servers: str) -> None:
    name = unique("task")
    with open_producer(producer_config(servers), name) as successor:
        late = TransactionalProducer(producer_config(servers), name)
        late.abandon()
        with pytest.raises(IllegalStateError, match="was abandoned"):
            late.init_transactions()
        late.close()
        successor.begin_transaction()
        successor.commit_transaction()
