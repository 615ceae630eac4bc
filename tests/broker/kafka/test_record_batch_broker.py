"""A real broker stores the encoder's batches and confluent-kafka reads them; the decoder reads confluent-kafka's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.producer.partitioner import partition_for_keys
from fencepost.kafka.records.columns import Records, normalize
from fencepost.kafka.records.compression import Compression
from fencepost.kafka.records.record_batch import encode, split_by_bytes
from tests.support.checker import read_topic, values
from tests.support.raw_kafka import RawKafka
from tests.support.tables import Row, Table, tables
from tests.support.topics import Topics, unique

_PARTITIONS = 8
_NOW = 1_700_000_000_123
_MESSAGE_TOO_LARGE = 10
_WAIT_SECONDS = 120.0
# The broker sets the base offset and the leader epoch itself; the producer sets all other fields.
_PRODUCERS_PART = slice(16, None)
_ANY_TIME = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
# Brokers use -1 for 'no timestamp', so a client cannot tell the two apart.
_TIMESTAMPS = st.integers(-(2**50), -2) | st.integers(0, 2**50) | st.integers(_NOW, _NOW + 1_000)


def _encoded(
    records: Records, compression: Compression = Compression.NONE, *, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytes:
    buffers = encode(
        records,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=False,
        compression=compression,
        now_ms=_NOW,
    )
    return b"".join(buffers)


@pytest.fixture(scope="module")
def raw(broker: EmbeddedBroker) -> Iterator[RawKafka]:
    connection = RawKafka(broker.bootstrap_servers)
    yield connection
    connection.close()


@dataclass
class _Tape:
    """A topic that is written and read back repeatedly by a consumer at its end."""

    topic: str
    raw: RawKafka
    consumer: Consumer

    def through(self, batches: dict[int, bytes], count: int) -> dict[int, list[Row]]:
        answers = self.raw.produce(self.topic, batches)
        assert {code for code, _ in answers.values()} == {0}
        rows: dict[int, list[Row]] = {partition: [] for partition in batches}
        while count:
            messages = self.consumer.consume(count, _WAIT_SECONDS)
            assert messages, f"{count} records of {self.topic} did not come in {_WAIT_SECONDS} s"
            for message in messages:
                assert message.error() is None
                if message.offset() < answers[message.partition()][1]:
                    continue  # from an example that failed half-way
                headers = tuple((name, value) for name, value in message.headers() or ())
                row = Row(message.key(), message.value(), message.timestamp()[1], headers)
                rows[message.partition()].append(row)
                count -= 1
        return rows


@pytest.fixture(scope="module")
def tape(broker: EmbeddedBroker, raw: RawKafka) -> Iterator[_Tape]:
    topic = Topics(broker.bootstrap_servers).create(partitions=_PARTITIONS, config=_ANY_TIME)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": unique("tape"),
            "check.crcs": True,
            "fetch.wait.max.ms": 5,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(_PARTITIONS)])
    yield _Tape(topic, raw, consumer)
    consumer.close()


def _expected(table: Table) -> list[Row]:
    times = [_NOW if row.timestamp is None else row.timestamp for row in table.rows]
    return [Row(row.key, row.value, time, row.headers) for row, time in zip(table.rows, times, strict=True)]


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(tables(timestamps=_TIMESTAMPS, max_rows=20), st.sampled_from(list(Compression))),
        min_size=1,
        max_size=_PARTITIONS,
    )
)
def test_any_table_is_read_back_by_confluent_kafka(tape: _Tape, cases: list[tuple[Table, Compression]]):
    batches = {partition: _encoded(table.records, codec) for partition, (table, codec) in enumerate(cases)}

    rows = tape.through(batches, sum(len(table.rows) for table, _ in cases))

    for partition, (table, _) in enumerate(cases):
        assert rows[partition] == _expected(table)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_broker_that_recompresses_reads_every_codec(
    codec: Compression, raw: RawKafka, topics: Topics, bootstrap_servers: str
):
    topic = topics.create(config={"compression.type": "uncompressed"})
    lines = [b'{"number": %d, "text": "%d%d"}' % (number, number, number) for number in range(20_000)]

    ((error, _),) = raw.produce(topic, {0: _encoded(Records(pa.array(lines)), codec)}).values()

    assert error == 0
    assert values(read_topic(bootstrap_servers, topic)) == lines


def test_split_batches_just_fit_the_brokers_limit(raw: RawKafka, topics: Topics, bootstrap_servers: str):
    records = Records(pa.array([b"x" * (number % 700) for number in range(3_000)]))
    limit = len(_encoded(records.slice(0, 200)))
    topic = topics.create(config={"max.message.bytes": str(limit)})

    answers = [raw.produce(topic, {0: _encoded(run)})[0][0] for run in split_by_bytes(records, limit)]
    ((full, _),) = raw.produce(topic, {0: _encoded(records.slice(0, 200))}).values()
    ((too_large, _),) = raw.produce(topic, {0: _encoded(records.slice(0, 201))}).values()

    assert set(answers) == {0}
    assert (full, too_large) == (0, _MESSAGE_TOO_LARGE)
    assert values(read_topic(bootstrap_servers, topic)) == records.value.to_pylist() + records.value.to_pylist()[:200]


def _rows_for_confluent(count: int) -> list[Row]:
    rows = []
    for number in range(count):
        value = None if number % 11 == 5 else b"v" * (number % 150)
        key = None if number % 7 == 3 else b"key-%d" % number
        headers = tuple((f"h{header}", None if header == 2 else b"x" * header) for header in range(number % 4))
        rows.append(Row(key, value, _NOW + number * (-1) ** number * 40, headers))
    return rows


def _records(rows: list[Row]) -> Records:
    headers = [[{"key": name, "value": value} for name, value in row.headers] for row in rows]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return normalize(
        pa.array([row.value for row in rows], pa.binary()),
        key=pa.array([row.key for row in rows], pa.binary()),
        timestamp=pa.array([row.timestamp for row in rows], pa.int64()),
        headers=pa.array(headers, kind),
    )


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_the_same_records_make_the_same_bytes_as_confluent_kafka(
    idempotent: bool, raw: RawKafka, topic: str, bootstrap_servers: str
):
    rows = _rows_for_confluent(9_000)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": idempotent,
            "linger.ms": 100,
            "batch.size": 500_000,
            "batch.num.messages": 20_000,
        }
    )
    for row in rows:
        producer.produce(topic, row.value, row.key, 0, timestamp=row.timestamp, headers=list(row.headers))
    assert producer.flush(_WAIT_SECONDS) == 0

    stored = raw.fetch(topic)

    position = 0
    for batch in stored:
        count = int.from_bytes(batch[57:61], "big")
        of_producer = (
            int.from_bytes(batch[43:51], "big", signed=True),
            int.from_bytes(batch[51:53], "big", signed=True),
            int.from_bytes(batch[53:57], "big", signed=True),
        )
        ours = _encoded(_records(rows[position : position + count]), producer=of_producer)
        assert ours[_PRODUCERS_PART] == batch[_PRODUCERS_PART]
        position += count
    assert position == len(rows)


def test_keys_go_to_the_partitions_that_confluent_kafka_chooses(topics: Topics, bootstrap_servers: str):
    topic = topics.create(partitions=7)
    keys = [uuid.uuid5(uuid.NAMESPACE_DNS, str(number)).bytes[: number % 17] + b"k" for number in range(1_000)]
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(topic, key, key)
    assert producer.flush(_WAIT_SECONDS) == 0

    chosen = sorted((record.key or b"", record.partition) for record in read_topic(bootstrap_servers, topic))

    assert chosen == sorted(zip(keys, partition_for_keys(pa.array(keys), 7).tolist(), strict=True))
