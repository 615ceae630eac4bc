"""The secured test broker accepts its users and nobody else, shown with confluent-kafka as the client."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from tests.support.processes import wait_for
from tests.support.security import SecuredBroker
from tests.support.topics import Topics


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_user_comes_in_by_each_mechanism(secured: SecuredBroker, mechanism: str) -> None:
    client = AdminClient({"bootstrap.servers": secured.sasl_servers, **secured.rdkafka("worker", mechanism)})

    assert client.list_topics(timeout=120).brokers


def test_a_client_without_a_name_comes_in_by_tls(secured: SecuredBroker) -> None:
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(secured.ca_file)}

    assert AdminClient({"bootstrap.servers": secured.tls_servers, **settings}).list_topics(timeout=120).brokers


def test_a_wrong_password_is_refused(secured: SecuredBroker) -> None:
    settings = {**secured.rdkafka("worker"), "sasl.password": "wrong", "log_level": 0}

    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": secured.sasl_servers, **settings}).list_topics(timeout=1)


def test_acl_changes_take_effect_immediately(secured: SecuredBroker) -> None:
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create()
    settings = {"bootstrap.servers": secured.sasl_servers, **secured.rdkafka("connector"), "log_level": 0}

    def produce() -> KafkaError | None:
        # A producer remembers that it was refused, so each attempt uses a new one.
        producer = Producer(settings)
        outcome: list[KafkaError | None] = []
        producer.produce(topic, b"v", on_delivery=lambda error, _: outcome.append(error))
        producer.flush(30)
        return outcome[0]

    refusal = produce()
    assert refusal is not None
    assert refusal.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    secured.allow("connector", AclOperation.WRITE, ResourceType.TOPIC, topic)
    wait_for(lambda: produce() is None)
    secured.revoke("connector", AclOperation.WRITE, ResourceType.TOPIC, topic)
    wait_for(lambda: produce() is not None)
    secured.allow("connector", AclOperation.WRITE, ResourceType.TOPIC, topic[:8], prefix=True)
    wait_for(lambda: produce() is None)
