"""Requests to a registry: logins, headers, and protection of the worker from a hostile registry."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost import ConfigError
from fencepost.api.secrets import HIDDEN, SECRETS
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.registry import http
from fencepost.converters.registry.client import RegistryClient
from fencepost.converters.registry.errors import (
    RegistryAccessError,
    RegistryAnswerError,
    RegistryError,
    RegistryUnavailableError,
)
from fencepost.converters.registry.registry import Registry
from fencepost.converters.registry.schemas import RegistrySchema
from fencepost.converters.registry.settings import RegistrySettings
from tests.support.fake_registry import FakeRegistry, fake_registry, send
from tests.support.security import make_certificate

pytestmark = pytest.mark.unit

SCHEMA = RegistrySchema('"long"', "AVRO")


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as found:
        yield found


def settings(address: str, **given: str) -> RegistrySettings:
    properties = {
        "schema.registry.url": address, "retries.wait.ms": "1", "max.retries": "1",
        "http.read.timeout.ms": "2000", **given,
    }  # fmt: skip
    return RegistrySettings.of(AvroConverter().config().parse(properties), properties)


def register(found: RegistrySettings) -> int:
    client = RegistryClient(found)
    try:
        return client.register("t-value", SCHEMA, normalize=False).id
    finally:
        client.close()


def login(registry: FakeRegistry) -> str:
    return registry.requests[-1].headers.get("Authorization", "")


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_the_login_in_the_address_is_sent_and_not_shown(registry: FakeRegistry):
    address = registry.address.replace("://", "://ann:pass%40word-1@")
    found = settings(address)
    register(found)
    assert login(registry) == basic("ann:pass@word-1")
    assert "word-1" not in repr(found)
    assert SECRETS.hidden("it is pass@word-1") == f"it is {HIDDEN}"


@pytest.mark.parametrize("name", ["basic.auth.user.info", "schema.registry.basic.auth.user.info"])
def test_the_login_of_user_info_is_sent(registry: FakeRegistry, name: str):
    register(settings(registry.address, **{"basic.auth.credentials.source": "USER_INFO", name: "ann:word-2"}))
    assert login(registry) == basic("ann:word-2")


def test_the_login_of_sasl_is_sent(registry: FakeRegistry):
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="word-3";'
    register(settings(registry.address, **{"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": jaas}))
    assert login(registry) == basic("ann:word-3")


def test_a_token_is_sent_with_the_headers_of_the_cloud(registry: FakeRegistry):
    register(settings(registry.address, **{
        "bearer.auth.token": "token-4", "bearer.auth.logical.cluster": "lsrc-1", "bearer.auth.identity.pool.id": "pool-1",
    }))  # fmt: skip
    headers = registry.requests[-1].headers
    assert (headers["Authorization"], headers["target-sr-cluster"]) == ("Bearer token-4", "lsrc-1")
    assert headers["Confluent-Identity-Pool-Id"] == "pool-1"


def test_configured_request_headers_are_sent(registry: FakeRegistry):
    register(settings(registry.address, **{"request.header.X-Team": "data"}))
    assert registry.requests[-1].headers["X-Team"] == "data"


def oauth(registry: FakeRegistry, **more: str) -> RegistrySettings:
    return settings(registry.address, **{
        "bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.issuer.endpoint.url": f"{registry.address}/token",
        "bearer.auth.client.id": "worker", "bearer.auth.client.secret": "s:cret-5", "bearer.auth.scope": "registry", **more,
    })  # fmt: skip


def test_a_token_of_an_endpoint_is_fetched_once_until_it_expires(registry: FakeRegistry):
    asked: list[tuple[str, str]] = []

    def give(handler: Any) -> bool:
        if handler.path != "/token":
            return False
        asked.append((handler.headers["Authorization"], handler.headers["Content-Type"]))
        lifetime = 3600 if len(asked) == 2 else 0
        return send(
            handler,
            200,
            json.dumps({"access_token": f"t{len(asked)}", "expires_in": lifetime}).encode(),
            "application/json",
        )

    registry.read_json = False
    registry.respond = give
    client = RegistryClient(oauth(registry))
    for expected in ("Bearer t1", "Bearer t2", "Bearer t2"):
        client.register("t-value", SCHEMA, normalize=False)
        assert login(registry) == expected
    client.close()
    assert asked == [(basic("worker:s%3Acret-5"), "application/x-www-form-urlencoded")] * 2


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b"{}", RegistryAccessError), (200, b"<html>", RegistryAccessError), (200, b'{"access_token": 7}', RegistryAccessError),
        (503, b"", RegistryUnavailableError),
    ],
)  # fmt: skip
def test_a_token_endpoint_that_gives_no_token_is_named(
    registry: FakeRegistry, status: int, body: bytes, error: type[Exception]
):
    registry.read_json = False
    registry.respond = lambda handler: send(handler, status, body, "application/json")
    with pytest.raises(error, match=f"{registry.address}/token"):
        register(oauth(registry))


def test_a_proxy_gets_the_requests(registry: FakeRegistry):
    host, port = registry.address.removeprefix("http://").split(":")
    register(settings("http://registry.invalid:8081", **{"proxy.host": host, "proxy.port": port}))
    assert registry.requests[-1].headers["Host"] == "registry.invalid:8081"


def test_both_ends_of_a_connection_have_certificates(tmp_path: Path):
    authorities, own = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    context.load_verify_locations(authorities)
    context.verify_mode = ssl.CERT_REQUIRED
    with fake_registry(tls=context) as registry:
        trusted = {
            "schema.registry.ssl.truststore.location": str(authorities), "schema.registry.ssl.truststore.type": "PEM",
        }  # fmt: skip
        mutual = {"schema.registry.ssl.keystore.location": str(own), "schema.registry.ssl.keystore.type": "PEM"}
        assert register(settings(registry.address, **trusted, **mutual)) == 1
        for given in ({}, trusted):
            with pytest.raises(RegistryUnavailableError, match="did not answer"):
                register(settings(registry.address, **given, **{"max.retries": "0"}))


@pytest.mark.parametrize("number", ['"7"', "0", "-1", "2147483648", "true", "1.5", "null", '{"id": 1}'])
def test_a_wrong_id_is_refused(registry: FakeRegistry, number: str):
    registry.respond = lambda handler: send(handler, 200, f'{{"id": {number}}}'.encode(), "application/json")
    with pytest.raises(RegistryAnswerError, match="with the id"):
        register(settings(registry.address))


def test_one_id_for_two_schemas_is_refused(registry: FakeRegistry):
    registry.respond = lambda handler: send(handler, 200, b'{"id": 7}', "application/json")
    shared = Registry(RegistryClient(settings(registry.address)))
    shared.registered("a", SCHEMA, normalize=False)
    shared.registered("b", RegistrySchema('{"type":"long","connect.type":"x"}', "AVRO"), normalize=False)
    with pytest.raises(RegistryAnswerError, match="gave the id 7 to two schemas"):
        shared.registered("c", RegistrySchema('"string"', "AVRO"), normalize=False)
    shared.client.close()


@pytest.mark.parametrize("body", [b"<html>Please log in</html>", b"", b"[1", b"[]", b"7", b'"x"', b"[" * 100_000])
def test_an_answer_of_another_server_is_refused(registry: FakeRegistry, body: bytes):
    registry.respond = lambda handler: send(handler, 200, body, "text/html")
    with pytest.raises(RegistryAnswerError, match=r"schema\.registry\.url"):
        register(settings(registry.address))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(registry: FakeRegistry, status: int):
    with fake_registry() as other:
        registry.respond = lambda handler: send(handler, status, b"", "text/plain", Location=f"{other.address}/x")
        with pytest.raises(RegistryAnswerError, match="redirects are not followed"):
            register(settings(registry.address.replace("://", "://ann:word-6@")))
        assert other.requests == []


def test_an_answer_without_an_end_is_not_read_to_the_end(registry: FakeRegistry):
    sent = 0

    def flood(handler: Any) -> bool:
        nonlocal sent
        handler.send_response(200)
        handler.send_header("Content-Length", str(2 * 1024**3))
        handler.end_headers()
        piece = b" " * 1024 * 1024
        try:
            while sent < 2 * 1024**3:
                handler.wfile.write(piece)
                sent += len(piece)
        except OSError:
            handler.close_connection = True
        return True

    registry.respond = flood
    with pytest.raises(RegistryAnswerError, match=f"more than {http.LONGEST_ANSWER} bytes"):
        register(settings(registry.address))
    assert sent < 4 * http.LONGEST_ANSWER


def test_an_answer_that_trickles_is_given_up(registry: FakeRegistry):
    over = threading.Event()

    def trickle(handler: Any) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        try:
            while not over.wait(0.05):
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            handler.close_connection = True
        return True

    registry.respond = trickle
    started = time.monotonic()
    times = {"http.read.timeout.ms": "300", "http.connect.timeout.ms": "300", "max.retries": "0"}
    with pytest.raises(RegistryUnavailableError, match="did not end its answer in time"):
        register(settings(registry.address, **times))
    over.set()
    assert time.monotonic() - started < 60


def test_a_registry_that_hangs_is_given_up(registry: FakeRegistry):
    over = threading.Event()
    registry.respond = lambda handler: over.wait(60) and send(handler, 200, b"{}", "application/json")
    with pytest.raises(RegistryUnavailableError, match="did not answer"):
        register(settings(registry.address, **{"http.read.timeout.ms": "200", "max.retries": "0"}))
    over.set()


def test_a_long_reason_is_shortened_and_harmless(registry: FakeRegistry):
    reason = "\x1b[31m" + "x" * 100_000
    body = json.dumps({"error_code": 42201, "message": reason}).encode()
    registry.respond = lambda handler: send(handler, 422, body, "application/json")
    with pytest.raises(RegistryError) as refused:
        register(settings(registry.address))
    assert len(str(refused.value)) < 3_000
    assert "\x1b" not in str(refused.value)


def test_a_schema_with_rules_of_a_data_contract_is_refused(registry: FakeRegistry):
    rules = {"ruleSet": {"domainRules": [{"name": "encrypt", "type": "ENCRYPT"}]}}
    answer = {"id": 1, "version": 1, "schema": '"long"', **rules}
    registry.respond = lambda handler: send(handler, 200, json.dumps(answer).encode(), "application/json")
    client = RegistryClient(settings(registry.address))
    with pytest.raises(RegistryAnswerError, match="rules of a data contract"):
        client.latest("t-value")
    client.close()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"schema.registry.url": "registry:8081"}, "schema.registry.url"),
        ({"schema.registry.url": "ftp://registry"}, "schema.registry.url"),
        ({"schema.registry.url": "mock://scope"}, "schema.registry.url"),
        ({"schema.registry.url": "http://"}, "schema.registry.url"),
        ({"schema.registry.url": "http://h:99999"}, "schema.registry.url"),
        ({"schema.registry.url": ""}, "schema.registry.url"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info"),
        ({"basic.auth.credentials.source": "CUSTOM"}, "basic.auth.credentials.source"),
        ({"bearer.auth.credentials.source": "UAMI"}, "bearer.auth.credentials.source"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "bearer.auth.issuer.endpoint.url"),
        ({"proxy.host": "proxy"}, "proxy.port"),
        ({"request.header.Host": "x"}, "request.header.Host"),
        ({"request.header.a b": "x"}, "request.header.a b"),
        ({"schema.registry.ssl.keystore.location": "/no/such/file"}, "schema.registry.ssl.keystore.location"),
        ({"value.subject.name.strategy": "com.example.Own"}, "value.subject.name.strategy"),
        ({"propagate.schema.tags": "true"}, "propagate.schema.tags"),
        ({"fencepost.schema.names": "x"}, "fencepost.schema.names"),
        ({"fencepost.registry.context": "staging"}, "fencepost.registry.context"),
        ({"max.retries": "-1"}, "max.retries"),
    ],
)
def test_an_invalid_property_is_named(given: dict[str, str], name: str):
    with pytest.raises(ConfigError) as error:
        AvroConverter().configure({"schema.registry.url": "http://registry:8081", **given}, is_key=False)
    assert error.value.name == name


def test_the_address_is_required():
    with pytest.raises(ConfigError, match=r"schema\.registry\.url is required"):
        AvroConverter().configure({}, is_key=False)
