"""Offsets in Kafka: written in transactions, read by our store and by independent clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from fencepost.api.errors import ConfigError, DataError
from fencepost.config.internal_topics import InternalTopic
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.consumer.read_to_end import TopicReadTimeoutError
from fencepost.kafka.errors import AuthorizationError
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore
from fencepost.storage.offsets.topic import OffsetStore
from fencepost.storage.offsets.uncommitted import OffsetRecords
from tests.support.checker import read_offsets, read_topic
from tests.support.processes import wait_for
from tests.support.security import SecuredBroker
from tests.support.topics import Topics, unique

_SECONDS = 120


@pytest.fixture
def config(bootstrap_servers: str) -> ClientConfig:
    return ClientConfig(bootstrap_servers=(bootstrap_servers,))


def _store(config: ClientConfig, topic: str, settings: Mapping[str, str] | None = None) -> OffsetStore:
    settled = InternalTopic(topic, 5, None, settings or {})
    return OffsetStore(settled, clients=KafkaClients(), consumer=config, admin=config)


@pytest.fixture
def store(config: ClientConfig) -> Iterator[OffsetStore]:
    """A store over a new offsets topic."""
    with _store(config, unique("offsets")) as store:
        store.ensure_topic()
        yield store


@pytest.fixture
def producer(config: ClientConfig) -> Iterator[TransactionalProducer]:
    producer = TransactionalProducer(ProducerConfig(client=config), unique("task"))
    producer.init_transactions()
    yield producer
    producer.close()


def _write(producer: TransactionalProducer, topic: str, offsets: OffsetRecords) -> None:
    """Write offsets in the open transaction."""
    writer = producer.writer()
    for partition, records in offsets.by_partition(writer.partitions(topic)):
        writer.write(topic, partition, records)
    producer.acknowledge(writer.flush())
    writer.close()


def _commit(producer: TransactionalProducer, topic: str, offsets: OffsetRecords) -> None:
    producer.begin_transaction()
    _write(producer, topic, offsets)
    producer.commit_transaction()


def _java_writes(bootstrap_servers: str, topic: str, key: bytes, value: bytes | None) -> None:
    """Write a record like a Connect worker without exactly-once, whose partitioner hashes keys like ours."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random"})
    producer.produce(topic, value, key=key)
    assert producer.flush(_SECONDS) == 0


def test_the_topic_is_made_as_connect_makes_it(config: ClientConfig, topics: Topics):
    name = unique("offsets")
    with _store(config, name, {"segment.ms": "123456"}) as store:
        assert store.ensure_topic()
        assert not store.ensure_topic()
    assert topics.partitions(name) == 5
    assert topics.config(name)["cleanup.policy"] == "compact"
    assert topics.config(name)["segment.ms"] == "123456"


def test_a_topic_that_would_lose_offsets_is_refused(config: ClientConfig, topics: Topics):
    name = topics.create()
    with _store(config, name) as store, pytest.raises(ConfigError, match=name):
        store.ensure_topic()


@pytest.mark.usefixtures("brief_learning")
def test_a_deleted_topic_is_created_again_and_known_offsets_stay(
    config: ClientConfig,
    producer: TransactionalProducer,
    topics: Topics,
    bootstrap_servers: str,
    caplog: pytest.LogCaptureFixture,
):
    # A topic that this process just created would be waited for, as brokers learn of it late. So another client creates
    # it.
    topic = topics.create(config={"cleanup.policy": "compact"})
    with _store(config, topic) as store:
        offsets = ConnectorOffsetStore("orders", store)
        records = offsets.records()
        records.put({"file": "a"}, {"position": 1})
        _commit(producer, store.topic, records)
        assert offsets.offsets() == [({"file": "a"}, {"position": 1})]
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        for deleting in admin.delete_topics([store.topic]).values():
            deleting.result(_SECONDS)
        wait_for(lambda: store.topic not in admin.list_topics(timeout=_SECONDS).topics)

        def noticed() -> bool:
            # For a moment, the leader of the deleted topic still answers.
            assert offsets.offsets() == [({"file": "a"}, {"position": 1})]
            return f"Offsets topic {store.topic} was deleted, and is created again" in caplog.text

        wait_for(noticed)
        assert topics.config(store.topic)["cleanup.policy"] == "compact"
        records.put({"file": "b"}, {"position": 2})
        _commit(producer, store.topic, records)
        assert len(offsets.offsets()) == 2


def test_committed_offsets_are_read_by_their_connector(store: OffsetStore, producer: TransactionalProducer):
    offsets = ConnectorOffsetStore("orders", store).records()
    offsets.put({"file": "a.csv"}, {"position": 4096, "line": 12})
    offsets.put({"file": "é.csv"}, {"position": 1})
    _commit(producer, store.topic, offsets)
    reader = ConnectorOffsetStore("orders", store).reader()
    assert reader.offset({"file": "a.csv"}) == {"position": 4096, "line": 12}
    assert reader.offsets([{"file": "b.csv"}, {"file": "é.csv"}]) == [None, {"position": 1}]
    assert ConnectorOffsetStore("others", store).reader().offset({"file": "a.csv"}) is None
    assert sorted(ConnectorOffsetStore("orders", store).offsets(), key=str) == [
        ({"file": "a.csv"}, {"position": 4096, "line": 12}),
        ({"file": "é.csv"}, {"position": 1}),
    ]


def test_an_independent_client_finds_the_records_of_connect(
    store: OffsetStore, producer: TransactionalProducer, bootstrap_servers: str
):
    offsets = ConnectorOffsetStore("c1", store).records()
    offsets.put({"task": "0"}, {"n": 3})
    _commit(producer, store.topic, offsets)
    (record,) = read_topic(bootstrap_servers, store.topic)
    assert (record.key, record.value) == (b'["c1",{"task":"0"}]', b'{"n":3}')
    assert [name for name, _ in record.headers] == ["fencepost.commit.time"], "Connect's workers ignore headers"
    assert read_offsets(bootstrap_servers, store.topic, "c1") == [({"task": "0"}, {"n": 3})]


def test_offsets_go_to_the_partitions_that_a_java_worker_would_take(
    store: OffsetStore, producer: TransactionalProducer, bootstrap_servers: str
):
    offsets = ConnectorOffsetStore("c1", store).records()
    for number in range(40):
        offsets.put({"task": str(number)}, {"n": number})
    _commit(producer, store.topic, offsets)
    ours = {record.key: record.partition for record in read_topic(bootstrap_servers, store.topic)}
    for key in ours:
        _java_writes(bootstrap_servers, store.topic, key or b"", b'{"n":0}')
    both = {(record.key, record.partition) for record in read_topic(bootstrap_servers, store.topic)}
    assert both == set(ours.items())
    assert len(set(ours.values())) == 5


def test_offsets_of_an_aborted_transaction_do_not_count(store: OffsetStore, producer: TransactionalProducer):
    offsets = ConnectorOffsetStore("orders", store).records()
    offsets.put({"file": "a"}, {"position": 1})
    _commit(producer, store.topic, offsets)
    producer.begin_transaction()
    offsets.put({"file": "a"}, {"position": 2})
    _write(producer, store.topic, offsets)
    producer.abort_transaction()
    assert ConnectorOffsetStore("orders", store).reader().offset({"file": "a"}) == {"position": 1}


def test_a_removed_offset_is_not_returned(store: OffsetStore, producer: TransactionalProducer):
    offsets = ConnectorOffsetStore("orders", store).records()
    offsets.put({"file": "a"}, {"position": 1})
    _commit(producer, store.topic, offsets)
    offsets.put({"file": "a"}, None)
    _commit(producer, store.topic, offsets)
    assert ConnectorOffsetStore("orders", store).reader().offset({"file": "a"}) is None
    assert ConnectorOffsetStore("orders", store).offsets() == []


def test_a_store_sees_later_commits_of_other_workers(store: OffsetStore, producer: TransactionalProducer):
    reader = ConnectorOffsetStore("orders", store).reader()
    for position in range(5):
        offsets = ConnectorOffsetStore("orders", store).records()
        offsets.put({"file": "a"}, {"position": position})
        _commit(producer, store.topic, offsets)
        assert reader.offset({"file": "a"}) == {"position": position}


def test_a_read_waits_for_a_commit_in_progress(store: OffsetStore, producer: TransactionalProducer):
    offsets = ConnectorOffsetStore("orders", store).records()
    offsets.put({"file": "a"}, {"position": 1})
    producer.begin_transaction()
    _write(producer, store.topic, offsets)
    committing = threading.Timer(0.5, producer.commit_transaction)
    committing.start()
    assert ConnectorOffsetStore("orders", store).reader().offset({"file": "a"}) == {"position": 1}
    committing.join()


def test_a_transaction_that_stays_open_is_named(store: OffsetStore, producer: TransactionalProducer):
    offsets = ConnectorOffsetStore("orders", store).records()
    offsets.put({"file": "a"}, {"position": 1})
    producer.begin_transaction()
    _write(producer, store.topic, offsets)
    with pytest.raises(TopicReadTimeoutError, match=producer.transactional_id):
        ConnectorOffsetStore("orders", store).reader(timeout_ms=500).offset({"file": "a"})
    producer.abort_transaction()


def test_a_reader_behind_another_one_times_out_and_names_the_transaction(
    store: OffsetStore, producer: TransactionalProducer
):
    offsets = ConnectorOffsetStore("orders", store).records()
    offsets.put({"file": "a"}, {"position": 1})
    producer.begin_transaction()
    _write(producer, store.topic, offsets)
    with ThreadPoolExecutor(1) as thread:
        patient = thread.submit(ConnectorOffsetStore("orders", store).reader().offset, {"file": "a"})
        wait_for(store._reading.locked, what="one reads")
        with pytest.raises(TopicReadTimeoutError, match=f"within 500 ms.*{producer.transactional_id}"):
            ConnectorOffsetStore("others", store).reader(timeout_ms=500).offset({"file": "b"})
        producer.commit_transaction()
        assert patient.result(_SECONDS) == {"position": 1}


def test_offsets_that_java_wrote_are_read_and_written_under_its_key(
    store: OffsetStore, producer: TransactionalProducer, bootstrap_servers: str
):
    java_key = b'["jdbc",{"table":"orders","db":"shop"}]'
    _java_writes(bootstrap_servers, store.topic, java_key, b'{"id": 7, "ratio": 1.0E10, "name": "\\u00e9"}')
    partition = {"db": "shop", "table": "orders"}
    assert ConnectorOffsetStore("jdbc", store).reader().offset(partition) == {"id": 7, "ratio": 1e10, "name": "é"}
    offsets = ConnectorOffsetStore("jdbc", store).records()
    offsets.put(partition, {"id": 8})
    _commit(producer, store.topic, offsets)
    assert [record.key for record in read_topic(bootstrap_servers, store.topic)] == [java_key, java_key]
    assert ConnectorOffsetStore("jdbc", store).offsets() == [({"table": "orders", "db": "shop"}, {"id": 8})]


def test_foreign_records_are_ignored_with_one_warning(
    store: OffsetStore, bootstrap_servers: str, caplog: pytest.LogCaptureFixture
):
    for key in (b"foreign", b"strange", b"odd"):
        _java_writes(bootstrap_servers, store.topic, key, b"{}")
    assert ConnectorOffsetStore("orders", store).offsets() == []
    assert [store.topic in message and "2 other records" in message for message in caplog.messages] == [True]


def test_offsets_that_cannot_be_stored_are_refused_before_anything_is_written(store: OffsetStore):
    offsets = ConnectorOffsetStore("orders", store).records()
    offsets.put({"file": "a"}, {"position": [1]})
    with pytest.raises(DataError, match="Connector orders: 'position'"):
        offsets.by_partition(5)


def test_several_threads_read_one_store(store: OffsetStore, producer: TransactionalProducer):
    offsets = ConnectorOffsetStore("orders", store).records()
    for number in range(100):
        offsets.put({"file": str(number)}, {"position": number})
    _commit(producer, store.topic, offsets)
    found: list[object] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(ConnectorOffsetStore("orders", store).reader().offset({"file": "42"}))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_SECONDS)
    assert found == [{"position": 42}] * 8


def test_reading_offsets_requires_read_access_to_their_topic(secured: SecuredBroker):
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create()

    def refused_operation() -> str:
        try:
            store.refresh()
        except AuthorizationError as error:
            return f"{error.operation} on {error.resource}"
        return "none"

    with _store(ClientConfig.from_properties(secured.properties("connector"), where="a test"), topic) as store:
        assert refused_operation() == f"DESCRIBE on topic {topic}"
        secured.allow("connector", AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
        writer = Producer({"bootstrap.servers": secured.sasl_servers, **secured.rdkafka()})
        writer.produce(topic, b"{}", key=b'["c",{}]')
        assert writer.flush(_SECONDS) == 0
        wait_for(lambda: refused_operation() == f"READ on topic {topic}")
        secured.allow("connector", AclOperation.READ, ResourceType.TOPIC, topic)
        wait_for(lambda: refused_operation() == "none")
