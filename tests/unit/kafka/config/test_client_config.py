"""Java client properties become our configuration, or an error names the property to use instead."""

from __future__ import annotations

import datetime as dt
import logging
import pickle
import ssl
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID
from kafka.net.selector import NetworkSelector  # noqa: TID251 - what the group's connections are made of

from fencepost.api.errors import ConfigError
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.config.oauth import OAuthConfig
from fencepost.kafka.config.token_provider import TokenProvider
from fencepost.kafka.group.connections import ConnectionManager
from fencepost.kafka.records.compression import Compression

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def client(**properties: str) -> ClientConfig:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientConfig.from_properties({"bootstrap.servers": "a:1", **named}, where="worker.properties")


def producer(properties: dict[str, str]) -> ProducerConfig:
    return ProducerConfig.from_properties({"bootstrap.servers": "a:1", **properties}, where="worker.properties")


def sasl(mechanism: str, jaas: str, **more: str) -> ClientConfig:
    properties = {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas, "security.protocol": "SASL_PLAINTEXT"}
    return ClientConfig.from_properties({"bootstrap.servers": "a:1", **properties, **more}, where="x")


def test_defaults_are_kafkas_except_the_batch_size() -> None:
    config = producer({})

    assert config.client.bootstrap_servers == ("a:1",)
    assert (config.client.request_timeout_ms, config.delivery_timeout_ms) == (30_000, 120_000)
    assert (config.transaction_timeout_ms, config.max_block_ms) == (60_000, 60_000)
    assert config.batch_size == config.max_request_size == 1_048_576
    assert config.compression is Compression.NONE


def test_javas_property_names_are_read() -> None:
    config = producer(
        {
            "batch.size": "1000",
            "buffer.memory": "5000",
            "compression.type": "zstd",
            "compression.zstd.level": "7",
            "max.request.size": "2000000",
            "max.block.ms": str(2**63 - 1),
            "max.in.flight.requests.per.connection": "1",
            "transaction.timeout.ms": "9000",
            "delivery.timeout.ms": "2147483647",
            "client.id": "me",
            "bootstrap.servers": "a:1, [::1]:2",
        }
    )

    assert (config.batch_size, config.buffer_memory, config.max_request_size) == (1_000, 5_000, 2_000_000)
    assert (config.compression, config.compression_level) == (Compression.ZSTD, 7)
    assert (config.max_block_ms, config.max_in_flight, config.transaction_timeout_ms) == (2**63 - 1, 1, 9_000)
    assert (config.client.client_id, config.client.bootstrap_servers) == ("me", ("a:1", "[::1]:2"))


def test_a_configuration_can_be_pickled_without_showing_its_password() -> None:
    config = sasl("SCRAM-SHA-512", f'{_SCRAM} required username="u" password="geheim";')

    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 - our own
    assert "geheim" not in repr(config)


@pytest.mark.parametrize("name", ["transactional.id", "enable.idempotence"])
def test_properties_that_would_break_the_guarantee_are_ignored_with_a_warning(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        producer({name: "false"})

    (warning,) = caplog.messages
    assert name in warning
    assert "worker.properties" in warning


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"compresion.type": "zstd"}, "did you mean compression.type"),
        ({"nonsense": "1"}, "remove it"),
        ({"interceptor.classes": "x.Y"}, "use a transform"),
        ({"partitioner.class": "x.Y"}, "default partitioner"),
        ({"ssl.engine.factory.class": "x.Y"}, "PEM files"),
        ({"acks": "1"}, "acks=all"),
        ({"compression.type": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({"compression.type": "gzip", "compression.gzip.level": "99"}, "between 1 and 9"),
        ({"transaction.timeout.ms": "soon"}, "transaction.timeout.ms"),
        ({"transaction.timeout.ms": "0"}, "more than 0"),
        ({"bootstrap.servers": "localhost"}, "not host:port"),
        ({"bootstrap.servers": "localhost:99999"}, "not host:port"),
        ({"bootstrap.servers": ""}, "bootstrap.servers is empty"),
        ({"security.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config is required"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"},
            "ssl.truststore.location=/nowhere cannot",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.key": "x"}, "go together"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "x"}, "use https"),
    ],
)
def test_unsupported_properties_are_refused_with_the_alternative(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        producer(properties)

    assert told in str(raised.value)
    assert str(raised.value).endswith("(in worker.properties)")
    assert raised.value.name is not None


@pytest.mark.parametrize(
    ("jaas", "password"),
    [
        (f'{_SCRAM} required username="u" password="p";', "p"),
        (f"{_SCRAM} required\n  username='u'\n  password='p q';", "p q"),
        (f"{_SCRAM}   required username=u password=p=q ;", "p=q"),
        (f'{_SCRAM} required username="u" password="a\\"b;c\\\\d"', 'a"b;c\\d'),
    ],
)
def test_jaas_entries_are_read_as_java_does(jaas: str, password: str) -> None:
    config = sasl("SCRAM-SHA-256", jaas)

    assert config.sasl_settings() == {
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "u",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize(
    "jaas",
    ["", "nonsense", f"{_SCRAM} username=u", f'{_SCRAM} required username="u";', f"{_SCRAM} required u secret;"],
)
def test_a_malformed_jaas_entry_shows_how_to_write_it_and_no_secret(jaas: str) -> None:
    with pytest.raises(ConfigError, match=r'ScramLoginModule required username="<name>"') as raised:
        sasl("SCRAM-SHA-256", jaas)

    assert "secret" not in str(raised.value)


def test_an_unsigned_token_carries_the_subject() -> None:
    config = sasl("OAUTHBEARER", f'{_OAUTH} required unsecuredLoginStringClaim_sub="alice";')

    assert config.sasl is not None
    assert config.sasl.oauth == OAuthConfig(subject="alice")
    header, claims, signature = TokenProvider(config.sasl.oauth).token().split(".")
    assert header
    assert claims
    assert not signature


@pytest.mark.parametrize(
    ("jaas", "more", "told"),
    [
        (f"{_OAUTH} required;", {}, "sasl.oauthbearer.token.endpoint.url"),
        (f"{_OAUTH} required;", {"sasl.oauthbearer.token.endpoint.url": "http://h/t"}, "clientId and no clientSecret"),
        (f"{_OAUTH} required;", {"sasl.oauthbearer.token.endpoint.url": "file:/x"}, "not an http"),
    ],
)
def test_a_missing_property_of_a_token_endpoint_is_named(jaas: str, more: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        sasl("OAUTHBEARER", jaas, **more)


def _identity(password: bytes | None = None) -> tuple[str, str, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()
    store_encryption = serialization.BestAvailableEncryption(b"store-secret")
    store = pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, store_encryption)
    return pem, private, store


def test_pem_files_inline_pem_and_pkcs12_stores_are_trusted_alike(tmp_path: Path) -> None:
    pem, private, store = _identity()
    (tmp_path / "trust.pem").write_text(pem)
    (tmp_path / "key.pem").write_text(private + pem)
    (tmp_path / "store.p12").write_bytes(store)
    files = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "trust.pem"),
        "ssl.keystore.location": str(tmp_path / "key.pem"),
    }
    inline = {
        "ssl.truststore.certificates": pem,
        "ssl.keystore.certificate.chain": pem,
        "ssl.keystore.key": private,
    }
    stores = {
        f"ssl.{kind}.{what}": value
        for kind in ("truststore", "keystore")
        for what, value in (("location", str(tmp_path / "store.p12")), ("password", "store-secret"))
    }
    for properties in (files, inline, stores):
        tls = client(security_protocol="SSL", **{k.replace(".", "_"): v for k, v in properties.items()}).tls

        assert tls is not None
        context = tls.context()
        (authority,) = context.get_ca_certs()
        assert authority["subject"] == ((("commonName", "me"),),)


def test_an_encrypted_key_needs_its_password_and_the_error_says_so(tmp_path: Path) -> None:
    pem, private, _ = _identity(b"key-secret")
    (tmp_path / "key.pem").write_text(private + pem)
    location = str(tmp_path / "key.pem")

    opened = client(security_protocol="SSL", ssl_keystore_location=location, ssl_key_password="key-secret")
    assert opened.tls is not None
    assert opened.tls.context().verify_mode is ssl.CERT_REQUIRED
    closed = client(security_protocol="SSL", ssl_keystore_location=location)
    assert closed.tls is not None
    with pytest.raises(ConfigError, match=r"ssl\.key\.password"):
        closed.tls.context()


def test_empty_properties_without_a_counterpart_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            producer({"interceptor.classes": " ", "partitioner.class": ""})

    assert [message.partition(" (")[0] for message in caplog.messages] == [
        "Ignoring interceptor.classes",
        "Ignoring partitioner.class",
    ]


def test_a_wrong_store_password_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store.p12").write_bytes(_identity()[2])

    with pytest.raises(ConfigError, match=r"Check ssl\.truststore\.password"):
        client(
            security_protocol="SSL",
            ssl_truststore_location=str(tmp_path / "store.p12"),
            ssl_truststore_password="wrong",
        )


def test_kafka_python_gets_the_same_settings() -> None:
    settings = sasl("PLAIN", f'{_SCRAM} required username="u" password="p";').kafka_python()

    assert settings["bootstrap_servers"] == ["a:1"]
    assert settings["security_protocol"] == "SASL_PLAINTEXT"
    assert (settings["sasl_mechanism"], settings["sasl_plain_username"]) == ("PLAIN", "u")


def test_brokers_that_were_away_for_long_are_looked_for_as_often_as_with_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConnectionManager, "jitter_pct", lambda _: 1.0)
    settings = ClientConfig(("broker:9092",)).kafka_python()
    with closing(NetworkSelector(**settings)) as net:
        manager = ConnectionManager(net, **settings)
        assert [manager.update_backoff("1") for _ in range(7)] == [50, 100, 200, 400, 800, 1_000, 1_000]
        manager.close()


def test_the_host_name_is_checked_by_default() -> None:
    checked = client(security_protocol="SSL").tls
    unchecked = client(security_protocol="SSL", ssl_endpoint_identification_algorithm="").tls

    assert checked is not None
    assert unchecked is not None
    assert checked.context().check_hostname
    assert not unchecked.context().check_hostname
