"""Which properties of a worker are for its Kafka clients, and which of them connectors may override."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fencepost.api.errors import ConfigError
from fencepost.config.unknown_properties import unknown_properties

_log = logging.getLogger(__name__)

POLICY: Final = "connector.client.config.override.policy"
ALLOWLIST: Final = "connector.client.config.override.allowlist"

CLIENT_PROPERTIES: Final = frozenset(
    {
        "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms", "default.api.timeout.ms",
        "metadata.max.age.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes",
        "security.protocol", "security.providers", "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    }
)  # fmt: skip
"""Names of properties that every kind of Kafka client has.

Names that begin with `sasl.` or `ssl.` belong to them, too.
"""


class ClientKind(StrEnum):
    """The kinds of Kafka client that a worker has."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


_RESERVED: Final[Mapping[ClientKind, Mapping[str, str]]] = {
    ClientKind.PRODUCER: {
        "transactional.id": "the worker derives it from the group, the connector and the task",
        "enable.idempotence": "a transaction is always idempotent",
    },
    ClientKind.CONSUMER: {"isolation.level": "source offsets are always read with read_committed"},
    ClientKind.ADMIN: {},
}
"""Properties whose override would break exactly-once delivery, and why they are ignored."""

_PRINCIPAL_PROPERTIES: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})

BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
_CREDENTIALS: Final = "sasl.jaas.config"
_DESTINATIONS: Final = frozenset(
    {
        BOOTSTRAP_SERVERS, "sasl.mechanism", "sasl.oauthbearer.token.endpoint.url", "security.protocol",
        "ssl.endpoint.identification.algorithm", "ssl.truststore.certificates", "ssl.truststore.location",
        "ssl.truststore.password", "ssl.truststore.type",
    }
)  # fmt: skip
"""Properties that decide who sees SASL credentials: the servers, and how they are authenticated."""

DEFAULT_ALLOWLIST: Final = (
    "acks", "batch.size", "buffer.memory", "client.id", "client.rack", "compression.gzip.level",
    "compression.lz4.level", "compression.type", "compression.zstd.level", "connections.max.idle.ms",
    "default.api.timeout.ms", "delivery.timeout.ms", "enable.idempotence", "fetch.max.bytes", "fetch.max.wait.ms",
    "fetch.min.bytes", "isolation.level", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes", "max.poll.records", "max.request.size", "metadata.max.age.ms",
    "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retries",
    "retry.backoff.max.ms", "retry.backoff.ms", "sasl.jaas.config", "sasl.mechanism", "security.protocol",
    "send.buffer.bytes", "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
    "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "transaction.timeout.ms",
    "transactional.id",
)  # fmt: skip
"""The properties that connectors may override by default: client tuning, and a separate principal.

The list has no property that names a server, a trust setting, or a file of the worker's machine. So a connector cannot
make a client send the worker's credentials to another server.
"""


def is_client_property(name: str) -> bool:
    """Say whether a worker property without a prefix is meant for its Kafka clients."""
    return name in CLIENT_PROPERTIES or name.startswith(("sasl.", "ssl."))


def overrides(properties: Mapping[str, str], prefix: str, kind: ClientKind, *, where: str) -> dict[str, str]:
    """Return the properties whose names begin with `prefix`, without it, for a client of this kind.

    Properties that would break exactly-once delivery are ignored. A warning names the property and `where` it was set.
    """
    chosen = {}
    for name, value in properties.items():
        if not name.startswith(prefix):
            continue
        short = name.removeprefix(prefix)
        reason = _RESERVED[kind].get(short)
        if reason is None:
            chosen[short] = value
        else:
            _log.warning("The property %s, set in %s, is ignored: %s", name, where, reason)
    return chosen


def combined(worker: Mapping[str, str], own: Mapping[str, str], kind: ClientKind, *, connector: str) -> dict[str, str]:
    """Return the properties of a connector's client: the worker's properties, overridden by the connector's `own` ones.

    If the connector changes who sees credentials, the worker's SASL credentials are removed. Raises ConfigError if the
    client then has no credentials.
    """
    changed = sorted(name for name in own.keys() & _DESTINATIONS if not _within(own[name], worker.get(name)))
    if not changed or _CREDENTIALS not in worker:
        return {**worker, **own}
    properties = {name: value for name, value in worker.items() if name != _CREDENTIALS} | dict(own)
    if _CREDENTIALS not in own and properties.get("security.protocol", "").upper().startswith("SASL_"):
        raise ConfigError(
            f"The {kind} of connector {connector} does not get the worker's SASL credentials, because the connector "
            f"changes where or how they are sent ({', '.join(changed)}): set {kind}.override.{_CREDENTIALS} to "
            "credentials of the connector's own",
            name=_CREDENTIALS,
        )
    return properties


def _within(own: str, worker: str | None) -> bool:
    """Return whether every entry of a list is in the worker's list.

    A subset of the worker's brokers is the same cluster.

    If the worker does not set the property, any value counts as different, even an empty one.
    """
    return worker is not None and _parts(own) <= _parts(worker)


def _parts(text: str) -> set[str]:
    return {part.strip() for part in text.split(",")}


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """Which client properties a connector may override: all properties, or the listed ones."""

    name: str
    allowed: frozenset[str] | None = None
    """None allows all."""

    @classmethod
    def of(cls, name: str, allowlist: Sequence[str]) -> OverridePolicy:
        """Return the policy that a worker property names, as an alias or as Java's class. Raises ConfigError."""
        alias = name.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
        match alias.lower():
            case "all":
                return cls("All")
            case "none":
                return cls("None", frozenset())
            case "principal":
                return cls("Principal", _PRINCIPAL_PROPERTIES)
            case "allowlist":
                return cls("Allowlist", frozenset(allowlist))
        raise ConfigError(
            f"Invalid value {name!r} for the property {POLICY}: it must be one of All, None, Principal, Allowlist",
            name=POLICY,
        )

    def refused(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the properties of a connector's configuration that it may not set, each with the reason."""
        if self.allowed is None:
            return {}
        reasons = {}
        for kind in ClientKind:
            prefix = f"{kind}.override."
            given = [name.removeprefix(prefix) for name in config if name.startswith(prefix)]
            for short, alike in unknown_properties(given, self.allowed).items():
                instead = "remove the property" if alike is None else f"set {prefix}{alike}, if that was meant,"
                reasons[prefix + short] = (
                    f"The worker's override policy {self.name} does not let a connector set {prefix}{short}: "
                    f"{instead} or {self._permission(short)} in the worker's configuration"
                )
        return reasons

    def _permission(self, short: str) -> str:
        if self.name == "Allowlist":
            return f"add {short} to {ALLOWLIST}"
        return f"set {POLICY}=Allowlist with {short} in {ALLOWLIST}"
