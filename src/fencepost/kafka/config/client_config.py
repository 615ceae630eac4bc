"""Java's client properties, converted for fencepost's own producer and kafka-python's clients.

Meanings and defaults are Kafka's (https://kafka.apache.org/documentation/#producerconfigs), unless the documentation of
a field differs. The classes are plain data, which Spark can send to executors.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self

from fencepost.api.errors import ConfigError
from fencepost.kafka.config import client_properties as known
from fencepost.kafka.config.security import SaslConfig, TlsConfig
from fencepost.kafka.config.token_provider import TokenProvider
from fencepost.kafka.records.compression import Compression

_LOG: Final = logging.getLogger(__name__)

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings that every client of a cluster needs. Times are in milliseconds."""

    bootstrap_servers: tuple[str, ...]
    client_id: str = "fencepost"
    security_protocol: str = "PLAINTEXT"
    sasl: SaslConfig | None = None
    tls: TlsConfig | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    connections_max_idle_ms: int = 540_000
    socket_connection_setup_timeout_ms: int = 10_000

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, where: str) -> ClientConfig:
        """Read Java's properties of a client of any kind.

        `where` names the file or connector of the properties, for messages. Raises ConfigError for a property that is
        malformed, unknown, or has no counterpart here. In the last case, the message names the alternative.
        """
        with _Blaming(where):
            _check_names(properties, where)
            values = known.CLIENT.parse(properties)
            protocol = str(values["security.protocol"]).upper()
            if protocol not in SECURITY_PROTOCOLS:
                raise ConfigError(
                    f"security.protocol={protocol} is not known: use one of {', '.join(SECURITY_PROTOCOLS)}",
                    name="security.protocol",
                )
            return cls(
                bootstrap_servers=_addresses(values["bootstrap.servers"]),
                client_id=values["client.id"],
                security_protocol=protocol,
                sasl=SaslConfig.from_properties(properties) if protocol.startswith("SASL_") else None,
                tls=TlsConfig.from_properties(properties) if protocol.endswith("SSL") else None,
                **_fields(values, cls, known.CLIENT_TIMES),
            )

    def kafka_python(self) -> dict[str, Any]:
        """Return the same settings as keyword arguments of kafka-python's clients."""
        settings: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "request_timeout_ms": self.request_timeout_ms,
            "retry_backoff_ms": self.retry_backoff_ms,
            "reconnect_backoff_ms": self.reconnect_backoff_ms,
            # With kafka-python's default of 30 s, a recovered broker might not be tried for up to 30 s.
            "reconnect_backoff_max_ms": self.reconnect_backoff_max_ms,
            "metadata_max_age_ms": self.metadata_max_age_ms,
            "connections_max_idle_ms": self.connections_max_idle_ms,
            "socket_connection_setup_timeout_ms": self.socket_connection_setup_timeout_ms,
        }
        if self.tls is not None:
            settings |= {"ssl_context": self.tls.context(), "ssl_check_hostname": self.tls.check_hostname}
        return settings | self.sasl_settings()

    def sasl_settings(self) -> dict[str, Any]:
        """Return the arguments of kafka-python's SASL mechanisms; empty without SASL."""
        if self.sasl is None:
            return {}
        settings: dict[str, Any] = {"sasl_mechanism": self.sasl.mechanism}
        if self.sasl.oauth is not None:
            return settings | {"sasl_oauth_token_provider": TokenProvider(self.sasl.oauth)}
        return settings | {"sasl_plain_username": self.sasl.username, "sasl_plain_password": self.sasl.password}


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """The configuration of a transactional producer and its writers. Sizes are in bytes, times in milliseconds.

    `batch_size` is the maximum size of a batch. Records are buffered until they reach half of it. It defaults to
    `max_request_size`, not to Java's 16 KiB, because encoding columns has a fixed cost per batch. `buffer_memory`
    limits the buffered bytes of all partitions together.
    """

    client: ClientConfig
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    max_request_size: int = 1_048_576
    batch_size: int = 1_048_576
    buffer_memory: int = 33_554_432
    transaction_timeout_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    max_in_flight: int = 5

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, where: str) -> Self:
        """Read Java's producer properties, like `ClientConfig.from_properties`.

        fencepost itself sets `transactional.id` and `enable.idempotence`: given values are ignored with a warning that
        names the property and `where`.
        """
        client = ClientConfig.from_properties(properties, where=where)
        with _Blaming(where):
            _warn_of_forced(properties, where)
            values = known.PRODUCER.parse(properties)
            if values["acks"] not in ("all", "-1"):
                raise ConfigError(
                    f"acks={values['acks']} cannot be exactly-once: remove it, or set acks=all", name="acks"
                )
            size = values["max.request.size"]
            # Java's client reads 0 as 'do not batch'. Here, the smallest batch size makes batches of one record.
            batch_size = max(1, values["batch.size"]) if "batch.size" in properties else size
            compression = _compression(values["compression.type"])
            return cls(
                client=client,
                compression=compression,
                compression_level=_level(compression, values),
                batch_size=min(batch_size, size),
                max_in_flight=min(values["max.in.flight.requests.per.connection"], 5),
                **_fields(values, cls, known.PRODUCER_FIELDS),
            )


class _Blaming:
    """Adds the source of the properties, a file or connector, to the message of a ConfigError."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, ConfigError):
            raise ConfigError(f"{error} (in {self._where})", name=error.name) from error


def _check_names(properties: Mapping[str, str], where: str) -> None:
    for name in properties:
        if name in known.NO_COUNTERPART and not properties[name].strip():
            _warn_of_empty(name, where)
        elif name in known.NO_COUNTERPART:
            raise ConfigError(f"{name} has no counterpart here: {known.NO_COUNTERPART[name]}", name=name)
        elif name not in known.ALL and not name.startswith(known.FREE_PREFIXES):
            near = difflib.get_close_matches(name, known.ALL, 1)
            advice = f"did you mean {near[0]}?" if near else "remove it"
            raise ConfigError(f"{name} is not a property of Kafka's clients: {advice}", name=name)


@cache
def _warn_of_empty(name: str, where: str) -> None:
    """Warn of a property that is ignored because it is empty, which is Java's default.

    The cache prevents repeated warnings, because a worker reads its file for each of its clients.
    """
    _LOG.warning("Ignoring %s (in %s): it is empty, and has no counterpart here", name, where)


def _warn_of_forced(properties: Mapping[str, str], where: str) -> None:
    for name in known.FORCED:
        if name in properties:
            _LOG.warning("Ignoring %s (in %s): exactly-once delivery sets it itself", name, where)


def _addresses(servers: list[str]) -> tuple[str, ...]:
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise ConfigError(
                f"bootstrap.servers: {server!r} is not host:port, for example localhost:9092", name="bootstrap.servers"
            )
    if not servers:
        raise ConfigError("bootstrap.servers is empty: give host:port of a broker or more", name="bootstrap.servers")
    return tuple(servers)


def _fields(values: Mapping[str, Any], cls: type, names: Mapping[str, str]) -> dict[str, Any]:
    for name in names:
        if values[name] <= 0:
            raise ConfigError(f"{name}={values[name]} must be more than 0", name=name)
    return {field: values[name] for name, field in names.items() if field in cls.__slots__}  # type: ignore[attr-defined]


def _compression(name: str) -> Compression:
    try:
        return Compression(name.lower())
    except ValueError:
        raise ConfigError(
            f"compression.type={name} is not known: use one of {', '.join(Compression)}", name="compression.type"
        ) from None


def _level(compression: Compression, values: Mapping[str, Any]) -> int | None:
    name = f"compression.{compression.value}.level"
    level = values.get(name)
    if level is None:
        return None
    levels = compression.levels
    if levels is not None and level not in levels:
        raise ConfigError(f"{name}={level} must be between {levels.start} and {levels.stop - 1}", name=name)
    return int(level)
