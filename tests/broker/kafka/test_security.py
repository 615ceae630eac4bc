"""The producer on a broker with TLS, SASL and ACLs: who is accepted, and which right an error says is missing."""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from fencepost.cli.main import run
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.config.token_provider import _unsigned
from fencepost.kafka.errors import AuthenticationError, AuthorizationError, BrokerUnavailableError
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.support.checker import read_topic, values
from tests.support.hanging import hang
from tests.support.processes import wait_for
from tests.support.security import SecuredBroker
from tests.support.topics import Topics, unique
from tests.support.writing import open_producer, write_in_transaction


def config(properties: dict[str, str]) -> ProducerConfig:
    return ProducerConfig.from_properties({"max.block.ms": "5000", **properties}, where="test")


def produce(properties: dict[str, str], topic: str, transactional_id: str) -> None:
    with open_producer(config(properties), transactional_id) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"v"] * 10)
        producer.commit_transaction()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_each_mechanism_lets_a_producer_in(secured: SecuredBroker, mechanism: str) -> None:
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create()

    produce(secured.properties("admin", mechanism), topic, unique("task"))

    assert values(read_topic(secured.sasl_servers, topic, settings=secured.rdkafka())) == [b"v"] * 10


def test_tls_alone_lets_a_producer_in(secured: SecuredBroker) -> None:
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create()

    produce(secured.tls_properties(), topic, unique("task"))

    assert len(read_topic(secured.sasl_servers, topic, settings=secured.rdkafka())) == 10


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_wrong_credentials_are_reported_in_one_line(secured: SecuredBroker, mechanism: str) -> None:
    producer = TransactionalProducer(config(secured.properties("admin", mechanism, secret="wrong")), unique("task"))

    with pytest.raises(AuthenticationError, match=rf"{mechanism} .*sasl\.jaas\.config") as raised:
        producer.init_transactions()
    assert "\n" not in str(raised.value)
    assert "wrong" not in str(raised.value)


def test_a_certificate_that_is_not_trusted_names_the_truststore(secured: SecuredBroker) -> None:
    properties = {"bootstrap.servers": secured.tls_servers, "security.protocol": "SSL"}

    with pytest.raises(AuthenticationError, match=r"ssl\.truststore"):
        TransactionalProducer(config(properties), unique("task")).init_transactions()


def test_plaintext_to_a_tls_listener_says_to_check_the_protocol(secured: SecuredBroker) -> None:
    properties = {"bootstrap.servers": secured.tls_servers, "max.block.ms": "300"}

    with pytest.raises(BrokerUnavailableError, match=r"security\.protocol"):
        TransactionalProducer(config(properties), unique("task")).init_transactions()


def test_an_unsupported_mechanism_names_the_supported_ones(
    secured: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.kafka.config.security.SASL_MECHANISMS", ("SCRAM-SHA-1",))
    properties = secured.properties("admin", "SCRAM-SHA-1")

    with pytest.raises(AuthenticationError, match=r"sasl\.mechanism=SCRAM-SHA-1.* SCRAM-SHA-512"):
        TransactionalProducer(config(properties), unique("task")).init_transactions()


def test_each_missing_right_is_named_and_granting_it_recovers(secured: SecuredBroker) -> None:
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create()
    transactional_id = unique("task")
    properties = secured.properties("connector")

    def missing() -> tuple[str, str] | None:
        try:
            produce(properties, topic, transactional_id)
        except AuthorizationError as error:
            return error.operation, error.resource
        return None

    grants = [
        (
            AclOperation.DESCRIBE,
            ResourceType.TRANSACTIONAL_ID,
            transactional_id,
            f"transactional id {transactional_id}",
        ),
        (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id, f"transactional id {transactional_id}"),
        (AclOperation.DESCRIBE, ResourceType.TOPIC, topic, f"topic {topic}"),
        (AclOperation.WRITE, ResourceType.TOPIC, topic, f"topic {topic}"),
    ]
    for operation, kind, name, resource in grants:
        expected = (operation.name, resource)
        wait_for(lambda expected=expected: missing() == expected)  # type: ignore[misc]
        secured.allow("connector", operation, kind, name)
    wait_for(lambda: missing() is None)

    assert len(read_topic(secured.sasl_servers, topic, settings=secured.rdkafka())) == 10


@contextmanager
def token_endpoint(status: int) -> Iterator[str]:
    """An OAuth server that gives an unsigned token for admin to the client `id` with the secret `secret`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"]))
            known = base64.b64encode(b"id:secret").decode() in self.headers["Authorization"]
            assert b"grant_type=client_credentials" in form
            self.send_response(status if known else 401)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": _unsigned("admin")}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()


def oauth_properties(secured: SecuredBroker, endpoint: str, secret: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return secured.properties("admin", "OAUTHBEARER") | {
        "sasl.jaas.config": f'{module} required clientId="id" clientSecret="{secret}" scope="kafka";',
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }


def test_a_token_from_an_endpoint_lets_a_producer_in(secured: SecuredBroker) -> None:
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create()

    with token_endpoint(200) as endpoint:
        produce(oauth_properties(secured, endpoint, "secret"), topic, unique("task"))

    assert len(read_topic(secured.sasl_servers, topic, settings=secured.rdkafka())) == 10


def test_a_token_endpoint_that_refuses_is_reported_with_advice(secured: SecuredBroker) -> None:
    with token_endpoint(200) as endpoint:
        producer = TransactionalProducer(config(oauth_properties(secured, endpoint, "wrong")), unique("task"))
        with pytest.raises(AuthenticationError, match="clientSecret"):
            producer.init_transactions()


class Command:
    """`fencepost standalone --once` in this process, reading two lines into a topic of its own."""

    def __init__(self, folder: Path) -> None:
        self.group, self.topic = unique("group"), unique("topic")
        self._worker, self._connector = folder / "worker.properties", folder / "lines.properties"
        (folder / "lines.txt").write_text("one\ntwo\n")
        self._connector.write_text(
            f"name=lines\nconnector.class=FileStreamSource\nfile={folder}/lines.txt\ntopic={self.topic}\n"
        )

    def run(self, client: dict[str, str]) -> int:
        settings = {
            "group.id": self.group,
            "offset.storage.topic": f"{self.group}-offsets",
            "config.storage.topic": f"{self.group}-configs",
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            **client,
        }
        self._worker.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return run(["standalone", "--once", str(self._worker), str(self._connector)])


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


def errors(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> list[str]:
    """The errors that the command reported to its user since the last call."""
    printed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fencepost: ")]
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    caplog.clear()
    return printed + logged


def test_the_command_reports_wrong_credentials_in_one_line(
    secured: SecuredBroker, command: Command, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert command.run(secured.properties("worker", secret="wrong")) == 1

    (line,) = errors(capsys, caplog)
    assert "refused the credentials" in line
    assert "sasl.jaas.config" in line


def test_the_command_names_each_missing_right_until_all_are_granted(
    secured: SecuredBroker, command: Command, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    topic, ids, write = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE
    own = (AclOperation.CREATE, AclOperation.READ, AclOperation.DESCRIBE_CONFIGS, write)
    for missing, then_given in (
        (f"topic {command.group}-offsets", [(operation, topic, command.group) for operation in own]),
        (f"transactional id connect-cluster-{command.group}", [(write, ids, f"connect-cluster-{command.group}")]),
        (f"transactional id {command.group}-lines-0", [(write, ids, f"{command.group}-")]),
        (f"topic {command.topic}", [(AclOperation.CREATE, topic, command.topic), (write, topic, command.topic)]),
    ):
        assert command.run(secured.properties("worker")) == 1
        (line,) = errors(capsys, caplog)
        assert f"Not authorized: the principal lacks DESCRIBE on {missing}" in line
        assert "Add an ACL that allows" in line
        for operation, kind, name in then_given:
            secured.allow("worker", operation, kind, name, prefix=True)

    assert command.run(secured.properties("worker")) == 0
    assert errors(capsys, caplog) == []
    found = values(read_topic(secured.sasl_servers, command.topic, settings=secured.rdkafka()))
    assert found == [b"one", b"two"]


def test_a_topic_is_verified_with_the_settings_of_a_file(
    secured: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create()
    file = tmp_path / "client.properties"

    def verify(user: str) -> int:
        lines = (f"{name}={value}\n" for name, value in secured.properties(user).items())
        file.write_text("".join(lines))
        return run(["verify", topic, "--command-config", str(file), "--expect-count", "0"])

    assert verify("admin") == 0
    capsys.readouterr()
    assert verify("connector") == 1
    assert topic in capsys.readouterr().err


def test_a_hanging_transaction_is_aborted_after_the_named_rights_are_granted(
    secured: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create()
    hang(config(secured.properties("admin")), topic, b"hangs", settings=secured.rdkafka())
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in secured.properties("nobody").items()))
    where = ["--topic", topic, "--partition", "0", "--start-offset", "0"]

    def abort() -> int:
        capsys.readouterr()
        return run(["transactions", "abort", *where, "--command-config", str(file)])

    for operation, kind, name, missing in (
        (AclOperation.DESCRIBE, ResourceType.TOPIC, topic, f"DESCRIBE on topic {topic}"),
        (AclOperation.READ, ResourceType.TOPIC, topic, f"READ on topic {topic}"),
        (
            AclOperation.ALTER,
            ResourceType.BROKER,
            "kafka-cluster",
            "ALTER (CLUSTER_ACTION before KIP-1037) on the cluster",
        ),
    ):
        assert abort() == 1
        assert f"Not authorized: the principal lacks {missing}" in capsys.readouterr().err
        secured.allow("nobody", operation, kind, name)
    assert abort() == 0
