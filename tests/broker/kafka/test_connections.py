"""Connections, their reuse, and a client's metadata of its cluster, on a real broker."""

from __future__ import annotations

import multiprocessing
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

from fencepost.api.errors import IllegalStateError
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import (
    AuthenticationError,
    BrokerRefusedError,
    BrokerUnavailableError,
    PartitionGoneError,
    TopicNotFoundError,
    UnknownOutcomeError,
    UnsupportedBrokerError,
)
from fencepost.kafka.precedence import Precedence
from fencepost.kafka.transport import connection as transport_connection
from fencepost.kafka.transport.cluster import Cluster
from fencepost.kafka.transport.connection import Connection
from fencepost.kafka.transport.pool import POOL, ConnectionPool
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.writing import numbered, open_producer, producer_config, write_in_transaction


def metadata_request() -> MetadataRequest:
    return MetadataRequest(topics=[])


@pytest.fixture
def config(broker: EmbeddedBroker) -> ClientConfig:
    return ClientConfig((broker.bootstrap_servers,), client_id=unique("client"))


@pytest.fixture
def address(broker: EmbeddedBroker) -> tuple[str, int]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return host, int(port)


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    with closing(ConnectionPool()) as pool:
        yield pool


def test_sasl_on_a_port_without_it_is_reported_with_the_remedy(address: tuple[str, int]) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "bootstrap.servers": "b:1"}
    properties["sasl.jaas.config"] = 'x.PlainLoginModule required username="u" password="p";'
    config = ClientConfig.from_properties(properties, where="a test")
    with pytest.raises(AuthenticationError, match=r"has no SASL on this port: set security\.protocol=PLAINTEXT"):
        Connection(address, config)


def test_no_request_is_sent_while_a_heartbeat_is_due(
    config: ClientConfig, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat, answered = Precedence(3600), threading.Event()
    monkeypatch.setattr(transport_connection, "HEARTBEAT", heartbeat)
    with closing(Connection(address, config)) as connection:

        def ask() -> None:
            connection.call(metadata_request(), at_most=9)
            answered.set()

        heartbeat.announce(time.monotonic())
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        assert not answered.wait(0.1)
        heartbeat.announce(None)
        assert answered.wait(60)
        thread.join()


def test_a_connection_that_is_given_back_is_used_again(
    pool: ConnectionPool, config: ClientConfig, address: tuple[str, int]
) -> None:
    connection = pool.take(config, address)
    pool.give_back(config, connection)

    assert pool.take(config, address) is connection
    connection.close()


def test_a_connection_with_something_in_flight_is_closed(
    pool: ConnectionPool, config: ClientConfig, address: tuple[str, int]
) -> None:
    connection = pool.take(config, address)
    connection.send(metadata_request(), at_most=9)
    pool.give_back(config, connection)

    assert connection.closed
    other = pool.take(config, address)
    assert other.call(metadata_request(), at_most=9).brokers
    other.close()


def test_unused_connections_are_closed(broker: EmbeddedBroker, address: tuple[str, int]) -> None:
    gone = ClientConfig((broker.bootstrap_servers,), client_id=unique("client"), connections_max_idle_ms=300)
    stays = ClientConfig((broker.bootstrap_servers,), client_id=unique("client"))
    with closing(ConnectionPool(sweep_s=0)) as pool:
        left, used = pool.take(gone, address), pool.take(stays, address)
        left.call(metadata_request(), at_most=9)
        pool.give_back(gone, left)
        wait_for(lambda: not left.fit_for_reuse)
        pool.give_back(stays, used)

        assert left.closed
        assert pool.take(stays, address) is used
        used.close()


def test_a_connection_that_broke_while_idle_is_not_used_again(pool: ConnectionPool, fault_proxy: FaultProxy) -> None:
    host, _, port = fault_proxy.address.rpartition(":")
    config = ClientConfig((fault_proxy.address,))
    connection = pool.take(config, (host, int(port)))
    pool.give_back(config, connection)
    fault_proxy.reset()

    other = pool.take(config, (host, int(port)))
    assert other is not connection
    assert other.call(metadata_request(), at_most=9).brokers
    other.close()


def test_other_settings_get_other_connections(
    pool: ConnectionPool, broker: EmbeddedBroker, address: tuple[str, int]
) -> None:
    one, other = (ClientConfig((broker.bootstrap_servers,), client_id=name) for name in ("one", "other"))
    connection = pool.take(one, address)
    pool.give_back(one, connection)

    with closing(pool.take(other, address)) as another:
        assert another is not connection


def test_threads_do_not_share_a_connection(
    pool: ConnectionPool, config: ClientConfig, address: tuple[str, int]
) -> None:
    def ask(_: int) -> int:
        connection = pool.take(config, address)
        brokers = len(connection.call(metadata_request(), at_most=9).brokers)
        pool.give_back(config, connection)
        return brokers

    with ThreadPoolExecutor(6) as executor:
        assert set(executor.map(ask, range(200))) == {1}


def _ask_in_child(config: ClientConfig, address: tuple[str, int], answers: object) -> None:
    connection = POOL.take(config, address)
    answers.put((connection.fileno(), len(connection.call(metadata_request(), at_most=9).brokers)))  # type: ignore[attr-defined]
    connection.close()


def test_a_forked_child_does_not_use_its_parent_s_connections(config: ClientConfig, address: tuple[str, int]) -> None:
    connection = POOL.take(config, address)
    POOL.give_back(config, connection)
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    # A lock that is held at the fork must not block the child process.
    with POOL._lock:
        child = fork.Process(target=_ask_in_child, args=(config, address, answers))
        child.start()
    _, brokers = answers.get()
    child.join()

    assert brokers == 1
    assert POOL.take(config, address) is connection
    assert connection.call(metadata_request(), at_most=9).brokers
    connection.close()


def test_a_request_unknown_to_the_broker_is_reported(config: ClientConfig, address: tuple[str, int]) -> None:
    with closing(Connection(address, config)) as connection:
        connection.versions = {}
        with pytest.raises(UnsupportedBrokerError, match="MetadataRequest"):
            connection.call(metadata_request())


def test_topic_metadata_is_requested_once(broker: EmbeddedBroker, fault_proxy: FaultProxy, topics: Topics) -> None:
    topic = topics.create(partitions=3)
    cluster = Cluster(ClientConfig((fault_proxy.address,)))
    deadline = Deadline.after(10_000)

    assert [cluster.partitions(topic, deadline) for _ in range(3)] == [3] * 3
    assert cluster.leader(topic, 2, deadline) in {
        ("127.0.0.1", port) for port in broker.nodes[0].place.ports.values()
    } | {("127.0.0.1", fault_proxy.port)}
    assert fault_proxy.requests[3] == 1
    cluster.forget_topic(topic)
    cluster.partitions(topic, deadline)
    assert fault_proxy.requests[3] == 2


def test_many_topics_are_learnt_by_one_request(fault_proxy: FaultProxy, topics: Topics) -> None:
    names = [topics.create(partitions=number) for number in (1, 2, 3)]
    cluster = Cluster(ClientConfig((fault_proxy.address,)))
    deadline = Deadline.after(10_000)

    cluster.learn_topics(names, deadline)

    assert [cluster.partitions(name, deadline) for name in names] == [1, 2, 3]
    assert fault_proxy.requests[3] == 1


def test_topics_that_the_broker_creates_are_learnt_together(config: ClientConfig) -> None:
    names = [unique("auto") for _ in range(3)]
    cluster = Cluster(config)
    cluster.learn_topics([*names, "not a topic"], Deadline.after(10_000))
    assert cluster.known_partitions() == dict.fromkeys(names, 1)


def test_a_topic_is_created_by_asking_for_it_where_the_broker_does_so(config: ClientConfig) -> None:
    assert Cluster(config).partitions(unique("auto"), Deadline.after(10_000)) == 1


def test_a_topic_with_custom_settings_is_not_auto_created_by_brokers(config: ClientConfig, topics: Topics) -> None:
    cluster, topic = Cluster(config), unique("kept")

    with pytest.raises(TopicNotFoundError):
        cluster.kept_partitions(topic, Deadline.after(500))
    with pytest.raises(TopicNotFoundError):
        cluster.leader(topic, 0, Deadline.after(500))

    assert topics.partitions(topic) is None


def test_a_topic_that_does_not_exist_and_is_not_created_is_reported(config: ClientConfig) -> None:
    with pytest.raises((TopicNotFoundError, BrokerRefusedError), match="not a name"):
        Cluster(config).partitions("not a name", Deadline.after(10_000))


def test_a_partition_that_does_not_exist_is_reported(config: ClientConfig, topic: str) -> None:
    with pytest.raises(PartitionGoneError, match=f"Topic {topic} was deleted and created again .* no partition 7"):
        Cluster(config).leader(topic, 7, Deadline.after(10_000))


@contextmanager
def throttling_server(throttle_ms: int) -> Iterator[tuple[tuple[str, int], list[float]]]:
    """Answers ApiVersions and Metadata like a broker under quota; records when each Metadata request came."""
    arrived: list[float] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        endpoint, _ = listener.accept()
        with endpoint:
            while size := endpoint.recv(4):
                request = endpoint.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
                api_key, version, correlation_id = struct.unpack_from(">hhi", request)
                if api_key == MetadataRequest.API_KEY:
                    arrived.append(time.monotonic())
                    answer = MetadataResponse(version=version, throttle_time_ms=throttle_ms)
                else:
                    key = ApiVersionsResponse.ApiVersion(api_key=MetadataRequest.API_KEY, min_version=0, max_version=9)
                    answer = ApiVersionsResponse(version=version, api_keys=[key])
                answer.with_header(correlation_id=correlation_id)
                endpoint.sendall(answer.encode(header=True, framed=True))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname(), arrived
    finally:
        thread.join()
        listener.close()


def test_a_throttled_connection_is_not_used_for_the_brokers_throttle_time() -> None:
    with (
        throttling_server(200) as (address, arrived),
        closing(Connection(address, ClientConfig(("unused:1",)))) as connection,
    ):
        connection.call(metadata_request(), at_most=9)
        answered = time.monotonic()
        connection.call(metadata_request(), at_most=9)

    # This is a lower bound: a slow machine only makes the time longer.
    assert arrived[1] - answered > 0.15


def test_an_unavailable_broker_is_named(config: ClientConfig) -> None:
    with pytest.raises(BrokerUnavailableError, match=r"127\.0\.0\.1:1 cannot be reached") as raised:
        Connection(("127.0.0.1", 1), config)
    assert raised.value.address == "127.0.0.1:1"


@pytest.mark.parametrize("awaited", [ApiKey.PRODUCE, ApiKey.END_TXN])
def test_a_task_that_waits_for_an_answer_ends_when_it_is_abandoned(fault_proxy: FaultProxy, awaited: ApiKey) -> None:
    topic = Topics(fault_proxy.address).create()
    config = producer_config(fault_proxy.address, request_timeout_ms=600_000)
    with open_producer(config, unique("task")) as producer, ThreadPoolExecutor(1) as thread:
        producer.begin_transaction()
        trap = fault_proxy.on_response(awaited, Act.HOLD)

        def write_and_commit() -> None:
            write_in_transaction(producer, topic, numbered(1))
            producer.commit_transaction()

        hanging = thread.submit(write_and_commit)
        trap.wait()
        try:
            producer.abandon()
            with pytest.raises((IllegalStateError, UnknownOutcomeError)):
                hanging.result(60)
        finally:
            trap.release()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_port_without_sasl_is_not_blamed_on_the_password(broker: EmbeddedBroker, mechanism: str) -> None:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    login = f'org.apache.kafka.common.security.{module}LoginModule required username="me" password="right";'
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": login,
    }
    config = ClientConfig.from_properties(properties, where="the test")
    host, _, port = broker.bootstrap_servers.rpartition(":")

    with pytest.raises(AuthenticationError, match=f"{host}:{port} has no SASL on this port: set .*=PLAINTEXT, or"):
        Connection((host, int(port)), config)
