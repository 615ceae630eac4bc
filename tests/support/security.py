"""A secured broker for tests: TLS with a certificate made on the spot, SASL, and ACLs.

Users `admin` (a super user), `worker`, `connector`, `nobody`, and for the three kinds of a connector's clients
`producer`, `consumer` and `administrator`; the password of each is `<name>-secret`. The listener SASL takes PLAIN,
SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER (unsigned tokens) over TLS, the listener TLS takes anybody and lets them do
all.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.properties import BrokerListener
from tests.support.processes import wait_for

USERS = ("admin", "worker", "connector", "nobody", "producer", "consumer", "administrator")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_TIMEOUT_SECONDS = 120.0

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def password(user: str) -> str:
    return f"{user}-secret"


@dataclass(frozen=True)
class SecuredBroker:
    """A running secured broker, and the settings of its clients."""

    broker: EmbeddedBroker
    ca_file: Path

    @property
    def sasl_servers(self) -> str:
        return self.broker.servers("SASL")

    @property
    def tls_servers(self) -> str:
        return self.broker.servers("TLS")

    def properties(self, user: str, mechanism: str = "SCRAM-SHA-256", *, secret: str | None = None) -> dict[str, str]:
        """A Java client's properties for the SASL listener."""
        secret = password(user) if secret is None else secret
        return {
            "bootstrap.servers": self.sasl_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": _client_jaas(mechanism, user, secret),
            **self._trust(),
        }

    def tls_properties(self) -> dict[str, str]:
        """A Java client's properties for the TLS listener."""
        return {"bootstrap.servers": self.tls_servers, "security.protocol": "SSL", **self._trust()}

    def rdkafka(self, user: str = "admin", mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """Settings of confluent-kafka's clients, without the servers."""
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "ssl.ca.location": str(self.ca_file),
            "sasl.username": user,
            "sasl.password": password(user),
        }
        if mechanism == "OAUTHBEARER":
            del settings["sasl.username"], settings["sasl.password"]
            settings |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={user}"}
        return settings

    def allow(self, user: str, operation: AclOperation, kind: ResourceType, name: str, *, prefix: bool = False) -> None:
        """Allow an operation on a resource, or on all whose name starts with `name`; in force on return."""
        pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        binding = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        self._admin.create_acls([binding])[binding].result(_TIMEOUT_SECONDS)
        wait_for(lambda: self._rights(user, operation, kind, name), what=f"{user} has {operation.name} on {name}")

    def revoke(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Remove an ACL, whichever pattern it has; gone on return."""
        rights = _filter(user, operation, kind, name)
        self._admin.delete_acls([rights])[rights].result(_TIMEOUT_SECONDS)
        wait_for(lambda: not self._rights(user, operation, kind, name), what=f"{user} lost {operation.name} on {name}")

    def _rights(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> list[AclBinding]:
        """The ACLs that the broker knows; it follows the controller a moment later."""
        found: list[AclBinding] = self._admin.describe_acls(_filter(user, operation, kind, name)).result(
            _TIMEOUT_SECONDS
        )
        return found

    @cached_property
    def _admin(self) -> AdminClient:
        # The client outlives the broker, which it would log as an error.
        return AdminClient({"bootstrap.servers": self.sasl_servers, "log_level": 2, **self.rdkafka()})

    def _trust(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}


def _filter(user: str, operation: AclOperation, kind: ResourceType, name: str) -> AclBindingFilter:
    return AclBindingFilter(kind, name, ResourcePatternType.ANY, f"User:{user}", None, operation, AclPermissionType.ANY)


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Start a secured broker with its state in `folder`."""
    ca_file, key_store = make_certificate(folder)
    with EmbeddedBroker(
        folder / "broker",
        listeners=_listeners(key_store),
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # ANONYMOUS is the broker itself on its plaintext listeners, and clients of the TLS listener.
            "super.users": "User:admin;User:ANONYMOUS",
        },
        format_arguments=_scram_users(),
    ) as broker:
        yield SecuredBroker(broker, ca_file)


def _listeners(key_store: Path) -> Sequence[BrokerListener]:
    tls = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(key_store)}
    plain_users = " ".join(f'user_{user}="{password(user)}"' for user in USERS)
    sasl = {
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "plain.sasl.jaas.config": f"{_PLAIN} required {plain_users};",
        "scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
        "scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
        "oauthbearer.sasl.jaas.config": f"{_OAUTH} required;",
    }
    return BrokerListener("SASL", "SASL_SSL", properties={**tls, **sasl}), BrokerListener("TLS", "SSL", properties=tls)


def _client_jaas(mechanism: str, user: str, secret: str) -> str:
    if mechanism == "OAUTHBEARER":
        return f'{_OAUTH} required unsecuredLoginStringClaim_sub="{user}";'
    module = _PLAIN if mechanism == "PLAIN" else _SCRAM
    return f'{module} required username="{user}" password="{secret}";'


def _scram_users() -> list[str]:
    return [
        argument
        for user in USERS
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for argument in ("--add-scram", f"{mechanism}=[name={user},password={password(user)}]")
    ]


def make_certificate(folder: Path, address: str = "127.0.0.1") -> tuple[Path, Path]:
    """A self-signed certificate for an address: the clients' trust file, and the broker's file with the key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    start = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address(address))]
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    ca_file, key_store = folder / "ca.pem", folder / "broker.pem"
    ca_file.write_bytes(public)
    key_store.write_bytes(private + public)
    return ca_file, key_store
