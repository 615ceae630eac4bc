"""The producer that owns a sink, without Spark: which producer is fenced, and which progress the new one reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.errors import BrokerUnavailableError, ProducerFencedError, UnsupportedBrokerError
from fencepost.kafka.producer.transaction import TransactionState
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.spark.config.progress import NextStep, Progress, SinkKey
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.errors import TopicRecreatedError
from fencepost.spark.sink.sink import Sink
from tests.support import faulty_broker
from tests.support.fault_proxy import ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.spark_visits import progress_partition
from tests.support.topics import Topics, unique


@pytest.fixture
def config(bootstrap_servers: str, topics: Topics) -> SinkConfig:
    return SinkConfig.from_options({"topic": topics.create(), "bootstrap.servers": bootstrap_servers})


@pytest.fixture
def key() -> SinkKey:
    return SinkKey(unique("sink"))


@pytest.fixture
def older(config: SinkConfig, key: SinkKey) -> Iterator[Sink]:
    """An owner with an open transaction that contains the progress of batch 3."""
    with closing(Sink(config, key)) as sink:
        sink.own()
        sink._producer.begin_transaction()
        sink._log.write(sink._producer, Progress("query", 3))
        yield sink


def test_a_new_owner_aborts_the_open_transaction_and_does_not_see_it(older: Sink, config: SinkConfig, key: SinkKey):
    with closing(Sink(config, key)) as newer:
        newer.own()
        assert newer.last is None
        with pytest.raises(ProducerFencedError):
            older._producer.commit_transaction()


def test_a_new_owner_sees_all_commits_of_the_fenced_owner(older: Sink, config: SinkConfig, key: SinkKey):
    """InitProducerId comes first, then the read: in the other order, a commit between the two would be missed."""

    class LateProducer(TransactionalProducer):
        def init_transactions(self) -> None:
            older._producer.commit_transaction()
            super().init_transactions()

    class LateClients(KafkaClients):
        def transactional_producer(self, config: ProducerConfig, transactional_id: str) -> TransactionalProducer:
            return LateProducer(config, transactional_id)

    with closing(Sink(config, key, clients=LateClients())) as newer:
        newer.own()
        assert newer.last == Progress("query", 3)


def test_nothing_is_committed_to_a_topic_that_was_created_again_under_its_owner(
    config: SinkConfig, key: SinkKey, topics: Topics
):
    topic = str(config.topic)
    with closing(Sink(config, key)) as sink:
        sink.own()
        sink._producer.begin_transaction()
        sink._commit(Progress("query", 0))
        topics.delete(topic)
        wait_for(lambda: topics.partitions(topic) is None)
        topics.create(topic)
        sink._producer.begin_transaction()
        with pytest.raises(TopicRecreatedError, match=f"Topic {topic} was deleted and created again"):
            sink._commit(Progress("query", 1))


def test_a_single_write_is_not_committed_to_a_topic_that_was_created_again(
    config: SinkConfig, key: SinkKey, topics: Topics
):
    topic = str(config.topic)
    with closing(Sink(config, key, keeps_progress=False)) as sink:
        sink.own()
        sink._producer.begin_transaction()
        topics.delete(topic)
        wait_for(lambda: topics.partitions(topic) is None)
        topics.create(topic)
        with pytest.raises(TopicRecreatedError, match=f"Topic {topic} was deleted and created again while"):
            sink._commit(Progress())


@pytest.mark.parametrize("keeps_progress", [False, True], ids=["a single write", "a query or run"])
def test_brokers_that_cannot_be_reached_are_named(key: SinkKey, *, keeps_progress: bool):
    config = SinkConfig.from_options({"bootstrap.servers": "127.0.0.1:1", "request.timeout.ms": 500})
    with (
        closing(Sink(config, key, keeps_progress=keeps_progress)) as sink,
        pytest.raises(BrokerUnavailableError, match=r"bootstrap\.servers=127\.0\.0\.1:1: check"),
    ):
        sink.own()


def test_commits_open_no_new_connection(key: SinkKey, topics: Topics, fault_proxy: FaultProxy):
    config = SinkConfig.from_options({"topic": topics.create(), "bootstrap.servers": fault_proxy.address})
    with closing(Sink(config, key)) as sink:
        sink.own()
        for batch in range(4):
            if batch == 1:
                # The first request on each connection is ApiVersions, so the count shows new connections.
                opened = fault_proxy.requests[ApiKey.API_VERSIONS]
            sink._producer.begin_transaction()
            sink._commit(Progress("query", batch))
        assert fault_proxy.requests[ApiKey.API_VERSIONS] == opened


def neighbour(key: SinkKey) -> SinkKey:
    """Another sink, whose progress is in the same partition."""
    partition = progress_partition(key)
    return next(k for k in map(SinkKey, iter(partial(unique, "sink"), "")) if progress_partition(k) == partition)


@pytest.mark.parametrize("broker_name", ["broker", "tv1_broker"])
def test_progress_is_read_behind_the_open_record_of_another_sink(
    request: pytest.FixtureRequest, key: SinkKey, broker_name: str
):
    """A run that was killed before its commit leaves an open record until its transaction times out."""
    servers = request.getfixturevalue(broker_name).bootstrap_servers
    config = SinkConfig.from_options({"bootstrap.servers": servers})
    killed, other = neighbour(key), neighbour(key)
    with (
        closing(Sink(config, key)) as sink,
        closing(Sink(config, killed)) as left,
        closing(Sink(config, other)) as live,
    ):
        for owner in (sink, left, live):
            owner.own()
        sink._producer.begin_transaction()
        sink._commit(Progress("query", 1))
        for owner in (left, live):
            owner._producer.begin_transaction()
            owner._log.write(owner._producer, Progress("other", 7))
        for batch in (2, 3):
            sink._producer.begin_transaction()
            sink._commit(Progress("query", batch))
        sink._producer.begin_transaction()
        sink._log.write(sink._producer, Progress("query", 4))
        sink._producer.abort_transaction()
        assert sink._log.read() == Progress("query", 3)
        with closing(Sink(config, neighbour(key))) as new:
            new.own()
            assert new.last is None
        # The other sinks are not disturbed: they can still commit and abort.
        live._producer.commit_transaction()
        assert live._log.read() == Progress("other", 7)
        left._producer.abort_transaction()
        assert left._log.read() is None
        assert sink._log.read() == Progress("query", 3)


def test_a_failed_commit_that_took_place_is_not_repeated(config: SinkConfig, key: SinkKey):
    """The commit's answer is lost, and the coordinator cannot be asked for a while."""
    with closing(Sink(config, key)) as sink:
        sink.own()
        sink._producer.begin_transaction()
        sink._log.write(sink._producer, Progress("query", 3))
        sink._producer.commit_transaction()
        sink._producer._move_to(TransactionState.FAILED)

        def decide(last: Progress | None) -> NextStep:
            return NextStep.WRITE if last is None else NextStep.SKIP

        # The write is skipped, so no DataFrame is needed.
        assert sink.write(None, None, Progress("query", 3), decide).skipped  # type: ignore[arg-type]


def test_a_sink_has_no_owner_on_brokers_that_cannot_raise_its_epoch(
    topics: Topics, fault_proxy: FaultProxy, key: SinkKey
):
    config = SinkConfig.from_options({"topic": topics.create(), "bootstrap.servers": fault_proxy.address})
    faulty_broker.know_up_to(fault_proxy, ApiKey.INIT_PRODUCER_ID, 1)

    with closing(Sink(config, key)) as sink, pytest.raises(UnsupportedBrokerError, match="knows InitProducerId up to"):
        sink.own()
