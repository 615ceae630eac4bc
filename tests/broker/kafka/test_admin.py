"""Topics are created and described, and failures come with a message for the operator."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from fencepost.api.errors import ConfigError, IllegalStateError
from fencepost.config.internal_topics import InternalTopic
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.topic_creation import NewTopic
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnavailableError,
    KafkaError,
    TopicCreationError,
)
from fencepost.kafka.transport.broker_client import BrokerClient
from fencepost.kafka.transport.created_topics import note_created
from fencepost.kafka.transport.topic_leaders import topic_leaders
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.security import SecuredBroker
from tests.support.topics import Topics, unique


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[Admin]:
    with Admin(ClientConfig(bootstrap_servers=(bootstrap_servers,))) as admin:
        yield admin


def _admin_as(secured: SecuredBroker, user: str, **others: str) -> Admin:
    return Admin(ClientConfig.from_properties(secured.properties(user) | others, where="a test"))


def test_a_topic_is_created_with_its_settings(admin: Admin, topics: Topics):
    name = unique("made")
    created = admin.create_topics(NewTopic(name, 3, 1, {"retention.ms": "12345", "cleanup.policy": "compact"}))
    assert created == {name: True}
    assert topics.partitions(name) == 3
    assert topics.config(name)["retention.ms"] == "12345"
    assert topics.config(name)["cleanup.policy"] == "compact"


def test_the_brokers_defaults_apply_if_nothing_is_set(admin: Admin, topics: Topics):
    name = unique("made")
    admin.create_topics(NewTopic(name))
    assert topics.partitions(name) == 1


def test_an_existing_topic_is_not_changed(admin: Admin, topics: Topics):
    name = topics.create(partitions=2)
    other = unique("made")
    assert admin.create_topics(NewTopic(name, 5), NewTopic(other)) == {name: False, other: True}
    assert topics.partitions(name) == 2


def test_more_topics_than_a_controller_takes_are_created_by_several_requests(
    fault_proxy: FaultProxy, topics: Topics, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fencepost.kafka.admin.topic_creation._RECORDS_OF_A_REQUEST", 10)
    names = [unique("made") for _ in range(5)]
    with Admin(ClientConfig((fault_proxy.address,))) as admin:
        # A topic with four partitions counts as 5 metadata records.
        assert admin.create_topics(*(NewTopic(name, 4) for name in names)) == dict.fromkeys(names, True)
    assert fault_proxy.requests[ApiKey.CREATE_TOPICS] == 3
    assert [topics.partitions(name) for name in names] == [4] * 5


@pytest.mark.parametrize(
    ("asked_by", "ask"),
    [
        (ApiKey.METADATA, lambda admin, _: admin.cluster_id()),
        (ApiKey.DESCRIBE_CONFIGS, lambda admin, topic: admin.describe_topic(topic)),
    ],
)
def test_a_question_is_asked_again_where_the_connection_breaks(
    fault_proxy: FaultProxy, topic: str, asked_by: ApiKey, ask: Callable[[Admin, str], object]
):
    with Admin(ClientConfig((fault_proxy.address,))) as admin:
        answer = ask(admin, topic)
        trap = fault_proxy.on_response(asked_by, Act.RESET)

        assert ask(admin, topic) == answer
        assert trap.sprung


def test_a_broker_that_says_nothing_does_not_keep_the_others_from_being_asked(bootstrap_servers: str):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = (f"127.0.0.1:{silent.getsockname()[1]}", bootstrap_servers)
        config = ClientConfig(servers, request_timeout_ms=20_000, socket_connection_setup_timeout_ms=100)
        for _ in range(8):  # which of them is asked first is random
            with Admin(config) as admin:
                assert admin.cluster_id()


def test_a_topic_is_described_with_the_settings_in_force(admin: Admin, topics: Topics):
    name = topics.create(partitions=4, config={"max.message.bytes": "2000000"})
    description = admin.describe_topic(name)
    assert description is not None
    assert (description.name, description.partitions, description.replication_factor) == (name, 4, 1)
    assert description.configs["max.message.bytes"] == "2000000"
    assert description.configs["cleanup.policy"] == "delete"


def test_a_missing_topic_has_no_description_and_is_not_created_by_asking(admin: Admin, topics: Topics):
    name = unique("missing")
    assert admin.describe_topic(name) is None
    assert admin.describe_topic(name) is None
    assert topics.partitions(name) is None


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        (NewTopic("refused", 1, 3), "lower replication factor than 3"),
        (NewTopic("refused", 0, 1), "another number of partitions than 0"),
        (NewTopic("refused", 1, 1, {"retention.ms": "soon"}), "correct the topic's settings (retention.ms=soon)"),
        (NewTopic("not/allowed", 1, 1), "at most 249 letters"),
    ],
    ids=["replication", "partitions", "setting", "name"],
)
def test_a_topic_that_is_refused_is_named_with_advice(admin: Admin, topic: NewTopic, told: str):
    with pytest.raises(TopicCreationError) as caught:
        admin.create_topics(topic)
    assert topic.name in str(caught.value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.topic == topic.name


def test_a_topic_that_kafka_takes_for_another_is_refused_with_advice(admin: Admin):
    name = unique("made")
    admin.create_topics(NewTopic(f"{name}.a_b"))
    with pytest.raises(
        TopicCreationError, match=r"collides.*: use a name.* differs from others in more than '\.' and '_'"
    ):
        admin.create_topics(NewTopic(f"{name}_a.b"))


def test_topics_beside_a_refused_one_are_created_all_the_same(admin: Admin, topics: Topics):
    name = unique("made")
    with pytest.raises(TopicCreationError):
        admin.create_topics(NewTopic("refused", 1, 3), NewTopic(name))
    assert topics.partitions(name) == 1


def test_an_internal_topic_is_compacted_with_one_replica_on_one_broker(admin: Admin, topics: Topics):
    name = unique("internal")
    settings = {"cleanup.policy": "delete", "segment.ms": "99999"}
    made = admin.ensure_compacted_topic(InternalTopic(name, 5, settings=settings))
    assert made
    description = admin.describe_topic(name)
    assert description is not None
    assert (description.partitions, description.replication_factor) == (5, 1)
    assert topics.config(name)["cleanup.policy"] == "compact"
    assert topics.config(name)["segment.ms"] == "99999"
    assert not admin.ensure_compacted_topic(InternalTopic(name, 5))


def test_an_internal_topic_has_three_replicas_on_three_brokers(three_node_broker: EmbeddedBroker):
    name = unique("internal")
    with Admin(ClientConfig(bootstrap_servers=tuple(three_node_broker.bootstrap_servers.split(",")))) as admin:
        wait_for(lambda: admin.broker_count() == 3)
        admin.ensure_compacted_topic(InternalTopic(name, 1))
        # The broker that is asked may learn of the topic a little later than the broker that created it.
        description = wait_for(lambda: admin.describe_topic(name))
    assert description.replication_factor == 3


def test_an_existing_topic_that_is_not_compacted_is_refused(admin: Admin, topics: Topics):
    name = topics.create()
    with pytest.raises(ConfigError, match=rf"{name} exists with cleanup\.policy=delete.*--add-config") as caught:
        admin.ensure_compacted_topic(InternalTopic(name, 1))
    assert caught.value.name == "cleanup.policy"


def test_one_broker_is_counted(admin: Admin):
    assert admin.broker_count() == 1


def test_creating_without_the_right_names_the_topic_and_the_right(secured: SecuredBroker):
    name = unique("forbidden")
    with _admin_as(secured, "nobody") as admin, pytest.raises(AuthorizationError) as caught:
        admin.create_topics(NewTopic(name))
    assert caught.value.resource == f"topic {name}"
    assert caught.value.operation.startswith("CREATE")
    assert name in str(caught.value)


def test_creating_works_once_the_right_is_given(secured: SecuredBroker):
    name = unique("allowed")

    def create() -> bool:
        try:
            return admin.create_topics(NewTopic(name))[name]
        except AuthorizationError:
            return False

    with _admin_as(secured, "worker") as admin:
        assert not create()
        secured.allow("worker", AclOperation.CREATE, ResourceType.TOPIC, name)
        secured.allow("worker", AclOperation.DESCRIBE, ResourceType.TOPIC, name)
        wait_for(create)


def test_describing_without_the_right_to_see_settings_names_it(secured: SecuredBroker):
    name = Topics(secured.sasl_servers, secured.rdkafka()).create()
    secured.allow("connector", AclOperation.DESCRIBE, ResourceType.TOPIC, name)

    def refused_operation() -> str:
        try:
            admin.describe_topic(name)
        except AuthorizationError as error:
            return error.operation
        return ""

    with _admin_as(secured, "connector") as admin:
        wait_for(lambda: refused_operation() == "DESCRIBE_CONFIGS")


def test_an_internal_topic_that_exists_takes_no_more_than_the_right_to_describe_it(
    secured: SecuredBroker, caplog: pytest.LogCaptureFixture
):
    name = Topics(secured.sasl_servers, secured.rdkafka()).create(config={"cleanup.policy": "compact"})

    def refused_operation() -> str:
        try:
            assert not admin.ensure_compacted_topic(InternalTopic(name, 1))
        except AuthorizationError as error:
            return error.operation
        return "none"

    with _admin_as(secured, "nobody") as admin:
        assert refused_operation() == "DESCRIBE"
        secured.allow("nobody", AclOperation.DESCRIBE, ResourceType.TOPIC, name)
        wait_for(lambda: refused_operation() == "none")
    assert name in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_each_sasl_mechanism_is_spoken(secured: SecuredBroker, mechanism: str):
    config = ClientConfig.from_properties(secured.properties("admin", mechanism), where="a test")
    with Admin(config) as admin:
        assert admin.broker_count() == 1


def test_a_wrong_password_is_reported_at_once(secured: SecuredBroker):
    config = ClientConfig.from_properties(secured.properties("worker", secret="wrong"), where="a test")
    with Admin(config) as admin, pytest.raises(AuthenticationError, match=r"sasl\.jaas\.config"):
        admin.broker_count()


def test_a_plain_client_on_a_secured_port_gets_the_protocol_as_the_reason(secured: SecuredBroker):
    config = ClientConfig(bootstrap_servers=(secured.tls_servers,), request_timeout_ms=1000)
    with Admin(config) as admin, pytest.raises(BrokerUnavailableError, match=r"security\.protocol"):
        admin.broker_count()


def test_a_tls_client_on_a_plain_port_gets_the_protocol_as_the_reason(secured: SecuredBroker, bootstrap_servers: str):
    properties = secured.tls_properties() | {"bootstrap.servers": bootstrap_servers, "request.timeout.ms": "1000"}
    admin = Admin(ClientConfig.from_properties(properties, where="a test"))
    with pytest.raises(KafkaError, match=r"security\.protocol"):
        admin.broker_count()
    admin.close()
    gc.collect()


def test_an_untrusted_certificate_is_reported_at_once(secured: SecuredBroker):
    properties = {"bootstrap.servers": secured.tls_servers, "security.protocol": "SSL"}
    admin = Admin(ClientConfig.from_properties(properties, where="a test"))
    with pytest.raises(AuthenticationError, match=r"ssl\.truststore\.location"):
        admin.broker_count()
    admin.close()
    gc.collect()


def test_an_unreachable_broker_is_named_and_leaves_no_socket_open():
    admin = Admin(ClientConfig(bootstrap_servers=("127.0.0.1:1",), request_timeout_ms=500))
    with pytest.raises(BrokerUnavailableError, match=r"bootstrap\.servers=127\.0\.0\.1:1"):
        admin.broker_count()
    admin.close()
    # An open socket warns when it is garbage-collected, and warnings are errors here.
    gc.collect()


def test_a_closed_admin_says_so(bootstrap_servers: str):
    admin = Admin(ClientConfig(bootstrap_servers=(bootstrap_servers,)))
    admin.close()
    with pytest.raises(IllegalStateError, match="closed"):
        admin.broker_count()
    admin.close()


@pytest.mark.usefixtures("brief_learning")
def test_a_topic_that_was_just_created_is_waited_for_until_brokers_learn_of_it(
    broker: EmbeddedBroker, fault_proxy: FaultProxy
) -> None:
    """The topic is created here only after more attempts than an unknown topic would get."""
    topic, servers = unique("late"), (fault_proxy.address,)
    note_created(servers, topic)
    with BrokerClient(ClientConfig(servers)) as client, ThreadPoolExecutor(1) as pool:
        leaders = pool.submit(
            client.run, topic_leaders, client, topic, Deadline.after(60_000), doing="finding the leaders"
        )
        wait_for(lambda: fault_proxy.requests[ApiKey.METADATA] > 20 or leaders.done())
        Topics(broker.bootstrap_servers).create(topic)
        assert list(leaders.result()) == [0]


def test_deleted_topics_are_not_listed_any_more(admin: Admin, topics: Topics):
    names = [topics.create() for _ in range(3)]
    assert admin.topic_names().issuperset(names)

    admin.delete_topics(names[0], names[1], unique("missing"))

    assert admin.topic_names().intersection(names) == {names[2]}
    admin.delete_topics()
    assert topics.partitions(names[2]) == 1


def test_the_right_to_delete_a_topic_is_named(secured: SecuredBroker):
    name = Topics(secured.sasl_servers, secured.rdkafka()).create()
    secured.allow("connector", AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    with _admin_as(secured, "connector") as admin:
        wait_for(lambda: name in admin.topic_names(), what="the right to describe the topic")
        with pytest.raises(AuthorizationError, match=f"DELETE.*{name}|{name}.*DELETE"):
            admin.delete_topics(name)
        assert name in admin.topic_names()
