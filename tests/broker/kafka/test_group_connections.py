"""kafka-python's connections, which only group members use: credentials, TLS, silent brokers."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import closing

import pytest

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.errors import AuthenticationError
from fencepost.kafka.group.membership import MemberState
from tests.support.group import Cluster, RecordingWorker, until
from tests.support.security import SecuredBroker
from tests.support.topics import unique


async def _joined(config: ClientConfig) -> RecordingWorker:
    """Run a worker until it is a member or has failed; return it after it has left the group."""
    cluster = Cluster(unique("workers"), {"a": 1})
    worker = cluster.worker("worker", "", client=config)
    try:
        await until(lambda: bool(worker.memberships or worker.failures))
    finally:
        await cluster.close()
    return worker


def _join(config: ClientConfig) -> RecordingWorker:
    worker = asyncio.run(_joined(config))
    # An open socket warns when it is garbage-collected, and warnings are errors here.
    gc.collect()
    return worker


def _refusal(config: ClientConfig) -> AuthenticationError:
    worker = _join(config)
    (error,) = worker.failures
    assert isinstance(error, AuthenticationError)
    assert worker.member.state in (MemberState.FAILED, MemberState.CLOSED)
    return error


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_member_speaks_each_sasl_mechanism(secured: SecuredBroker, mechanism: str):
    worker = _join(ClientConfig.from_properties(secured.properties("admin", mechanism), where="a test"))
    assert worker.memberships


def test_a_member_with_a_wrong_password_fails_at_once(secured: SecuredBroker):
    properties = secured.properties("worker", secret="wrong")
    assert "sasl.jaas.config" in str(_refusal(ClientConfig.from_properties(properties, where="a test")))


def test_a_member_that_does_not_trust_the_certificate_fails_at_once(secured: SecuredBroker):
    properties = {"bootstrap.servers": secured.tls_servers, "security.protocol": "SSL"}
    assert "ssl.truststore.location" in str(_refusal(ClientConfig.from_properties(properties, where="a test")))


def test_a_silent_broker_does_not_keep_a_member_from_others(bootstrap_servers: str):
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        servers = (f"127.0.0.1:{silent.getsockname()[1]}", bootstrap_servers)
        config = ClientConfig(servers, request_timeout_ms=20_000, socket_connection_setup_timeout_ms=100)
        for _ in range(4):  # which of them is asked first is random
            assert _join(config).memberships
