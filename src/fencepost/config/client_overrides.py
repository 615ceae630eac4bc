"""Properties for Kafka clients: which come from where, which may be overridden, and which never."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fencepost.api.errors import ConfigError

_log = logging.getLogger(__name__)

CLIENT_PROPERTIES: Final = frozenset(
    {
        "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms", "default.api.timeout.ms",
        "metadata.max.age.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes",
        "security.protocol", "security.providers", "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    }
)  # fmt: skip
"""Names of properties that every kind of Kafka client has, besides those that begin with `sasl.` or `ssl.`."""


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
"""Properties that would break exactly-once if they were overridden, and why they are not taken."""

_PRINCIPAL_PROPERTIES: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


def is_client_property(name: str) -> bool:
    """Say whether a worker property without a prefix is meant for its Kafka clients."""
    return name in CLIENT_PROPERTIES or name.startswith(("sasl.", "ssl."))


def overrides(properties: Mapping[str, str], prefix: str, kind: ClientKind, *, where: str) -> dict[str, str]:
    """Return the properties below `prefix`, without it, for a client of the kind given.

    Those that would break exactly-once are left out with a warning that names the property and `where` it was set.
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


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """Which client properties a connector may override: all of them, or those that are listed."""

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
            f"Invalid value {name!r} for the property connector.client.config.override.policy: "
            "it must be one of All, None, Principal, Allowlist",
            name="connector.client.config.override.policy",
        )

    def refused(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the properties of a connector's configuration that it may not set, each with the reason."""
        if self.allowed is None:
            return {}
        allowed = f"it allows {', '.join(sorted(self.allowed))}" if self.allowed else "it allows none"
        reasons = {}
        for kind in ClientKind:
            prefix = f"{kind}.override."
            for name in config:
                if name.startswith(prefix) and name.removeprefix(prefix) not in self.allowed:
                    reasons[name] = (
                        f"The worker's override policy {self.name} does not let a connector set {name} ({allowed}): "
                        "remove the property, or change connector.client.config.override.policy on the worker"
                    )
        return reasons
