"""The settings of a broker's nodes: a small KRaft cluster on loopback, in which each node is broker and controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fencepost.embedded.ports import HOST

CLIENT: Final = "CLIENT"
INTERNAL: Final = "INTERNAL"
CONTROLLER: Final = "CONTROLLER"

_ASCII: Final = 128


@dataclass(frozen=True)
class BrokerListener:
    """A listener for clients.

    `advertised_ports`, one for each node, are shown to clients instead of the real ports, so that clients connect
    through a proxy. `properties` belong to the listener (`ssl.keystore.location`, `scram-sha-256.sasl.jaas.config`,
    ...).
    """

    name: str
    protocol: str = "PLAINTEXT"
    advertised_ports: Sequence[int] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodePlace:
    """A node's id (from 1), its folder, and the port of each of its listeners by name."""

    node_id: int
    folder: Path
    ports: Mapping[str, int]


def server_properties(
    place: NodePlace, places: Sequence[NodePlace], listeners: Sequence[BrokerListener], extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the server.properties of the node at `place` in the cluster of `places`.

    `extra` overrides other properties.
    """
    internal = (BrokerListener(INTERNAL), BrokerListener(CONTROLLER))
    advertised = [f"{INTERNAL}://{HOST}:{place.ports[INTERNAL]}"] + [
        f"{listener.name}://{HOST}:{_advertised_port(listener, place)}" for listener in listeners
    ]
    return {
        "process.roles": "broker,controller",
        "node.id": str(place.node_id),
        "controller.quorum.voters": ",".join(f"{p.node_id}@{HOST}:{p.ports[CONTROLLER]}" for p in places),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listeners": ",".join(f"{each.name}://{HOST}:{place.ports[each.name]}" for each in (*listeners, *internal)),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(f"{each.name}:{each.protocol}" for each in (*listeners, *internal)),
        "log.dirs": str(place.folder / "data"),
        **_replication(len(places)),
        # The defaults (50 each) are for large clusters. Creating so many partitions takes most of the first
        # transaction's time.
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        # Kafka's default, a week, counts from the timestamps of the records: a test's or a demonstration's old rows would
        # be deleted within minutes. log.retention.ms and log.retention.minutes in `extra` take precedence over the hours.
        "log.retention.hours": "-1",
        # The default (128 MB) would take half of the heap's memory.
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        "group.initial.rebalance.delay.ms": "0",
        # By default the controller writes a no-op record twice a second, which keeps all nodes busy.
        "metadata.max.idle.interval.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        **{
            f"listener.name.{listener.name.lower()}.{name}": value
            for listener in listeners
            for name, value in listener.properties.items()
        },
        **extra,
    }


def _replication(nodes: int) -> dict[str, str]:
    replicas, in_sync = str(min(3, nodes)), str(min(2, nodes))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _advertised_port(listener: BrokerListener, place: NodePlace) -> int:
    if listener.advertised_ports is None:
        return place.ports[listener.name]
    return listener.advertised_ports[place.node_id - 1]


def render(properties: Mapping[str, str]) -> str:
    """Return the text of a .properties file, in ASCII, because Kafka's scripts and classes read Latin-1 or UTF-8."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    units = value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if code < _ASCII else f"\\u{code:04x}" for code in codes)


LOGGING: Final = render(
    {
        "appender.console.type": "Console",
        "appender.console.name": "console",
        "appender.console.layout.type": "PatternLayout",
        "appender.console.layout.pattern": "%d %-5p %m (%c{1})%n%throwable",
        "rootLogger.level": "INFO",
        "rootLogger.appenderRef.console.ref": "console",
        # These loggers repeat the settings and the metadata log in thousands of lines at each start.
        "logger.config.name": "org.apache.kafka.common.config.AbstractConfig",
        "logger.config.level": "WARN",
        "logger.server_config.name": "kafka.server.KafkaConfig",
        "logger.server_config.level": "WARN",
    }
)
"""The configuration of the broker's own log, which goes to standard output, and from there to the node's log file."""
