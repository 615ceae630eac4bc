"""The names of the properties of Kafka's Java clients, and how fencepost handles each.

A property is used (CLIENT, PRODUCER, the `sasl.` and `ssl.` names of SECURITY), set by fencepost itself (FORCED),
without effect because there is nothing to tune (WITHOUT_EFFECT), or refused because ignoring it would change what the
operator requested (NO_COUNTERPART).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.api.config_def import ConfigDef

_INT: Final = ConfigDef.Type.INT
_STRING: Final = ConfigDef.Type.STRING
_HIGH: Final = ConfigDef.Importance.HIGH
_MEDIUM: Final = ConfigDef.Importance.MEDIUM
_LOW: Final = ConfigDef.Importance.LOW

CLIENT_TIMES: Final[Mapping[str, str]] = {
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
}
"""Maps properties in milliseconds to fields of ClientConfig."""

PRODUCER_FIELDS: Final[Mapping[str, str]] = {
    "max.request.size": "max_request_size",
    "buffer.memory": "buffer_memory",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "max.block.ms": "max_block_ms",
}
"""Maps properties to the fields of ProducerConfig that have the same values."""

CLIENT: Final = (
    ConfigDef()
    .define(
        "bootstrap.servers", ConfigDef.Type.LIST, ConfigDef.NO_DEFAULT, _HIGH,
        "The brokers to connect to first, comma-separated, as host:port. The client learns about the others from "
        "them.",
    )
    .define("client.id", _STRING, "fencepost", _LOW, "The client's name in the brokers' logs and quotas.")
    .define(
        "security.protocol", _STRING, "PLAINTEXT", _MEDIUM,
        "The protocol of the brokers' port: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    .define(
        "request.timeout.ms", _INT, 30_000, _MEDIUM,
        "How long the client waits for a broker's response to one request, in milliseconds.",
    )
    .define("retry.backoff.ms", _INT, 100, _LOW, "The first pause before a request is retried, in milliseconds.")
    .define("retry.backoff.max.ms", _INT, 1_000, _LOW, "The longest pause before a request is retried, in milliseconds.")
    .define(
        "reconnect.backoff.ms", _INT, 50, _LOW,
        "The first pause before reconnecting to an unreachable broker, in milliseconds.",
    )
    .define(
        "reconnect.backoff.max.ms", _INT, 1_000, _LOW,
        "The longest pause before reconnecting to an unreachable broker, in milliseconds.",
    )
    .define(
        "metadata.max.age.ms", _INT, 300_000, _LOW,
        "How old metadata about brokers and partitions may be before the client fetches it again, in milliseconds.",
    )
    .define(
        "connections.max.idle.ms", _INT, 540_000, _LOW, "The idle time after which a connection is closed, in milliseconds.",
    )
    .define(
        "socket.connection.setup.timeout.ms", _INT, 10_000, _MEDIUM,
        "How long establishing a connection to a broker may take, in milliseconds.",
    )
)  # fmt: skip

# Some properties in milliseconds are a LONG in Java (max.block.ms): Connect itself sets Long.MAX_VALUE.
PRODUCER: Final = (
    ConfigDef()
    .define("acks", _STRING, "all", _LOW, "Only all (or -1) allows exactly-once delivery; anything else is refused.")
    .define(
        "batch.size", _INT, None, _LOW,
        "The maximum size of a batch in bytes, before compression. Unset: max.request.size, because columns are encoded "
        "at a fixed cost per batch.",
    )
    .define(
        "compression.type", _STRING, "none", _MEDIUM,
        "The compression of record batches: none, gzip, snappy, lz4 or zstd.",
    )
    .define(
        "compression.gzip.level", _INT, None, _LOW,
        "The compression level for gzip. Unset: the default level of gzip.",
    )
    .define(
        "compression.lz4.level", _INT, None, _LOW,
        "The compression level for lz4. Unset: the default level of lz4.",
    )
    .define(
        "compression.zstd.level", _INT, None, _LOW,
        "The compression level for zstd. Unset: the default level of zstd.",
    )
    .define(
        "max.request.size", _INT, 1_048_576, _MEDIUM,
        "The maximum size of a record and of a batch in bytes. The topic's max.message.bytes limits both as well.",
    )
    .define(
        "buffer.memory", ConfigDef.Type.LONG, 33_554_432, _MEDIUM,
        "The maximum number of bytes that one producer buffers for all partitions together. Above it, the largest "
        "batch is sent before it is full.",
    )
    .define(
        "max.in.flight.requests.per.connection", _INT, 5, _LOW,
        "The maximum number of unacknowledged batches per partition; at most 5.",
    )
    .define(
        "transaction.timeout.ms", _INT, 60_000, _HIGH,
        "How long a transaction may stay open, in milliseconds, before the broker aborts it and the task fails. At "
        "most the broker's transaction.max.timeout.ms. Unset, the default depends on transaction.boundary: interval "
        "means twice the interval, but at least 60000 and at most 900000; snapshot and source mean 900000.",
    )
    .define(
        "delivery.timeout.ms", _INT, 120_000, _MEDIUM,
        "How long a batch may take from being sent to being acknowledged, retries included, in milliseconds.",
    )
    .define(
        "max.block.ms", ConfigDef.Type.LONG, 60_000, _MEDIUM,
        "How long beginning or ending a transaction, or finding the brokers, may take, in milliseconds.",
    )
)  # fmt: skip

SECURITY: Final = frozenset(
    {
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

FORCED: Final = ("transactional.id", "enable.idempotence")

WITHOUT_EFFECT: Final = frozenset(
    {
        # Properties of every client that have no effect in fencepost.
        "auto.include.jmx.reporter", "client.dns.lookup", "client.rack", "default.api.timeout.ms",
        "enable.metrics.push", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy",
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "receive.buffer.bytes", "retries", "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        # Properties of producers. They have no effect, because fencepost sends records at a flush or when a batch is
        # full.
        "key.serializer", "linger.ms", "metadata.max.idle.ms", "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms", "partitioner.ignore.keys", "value.serializer",
        # Properties of consumers. They have no effect, because fencepost reads topics to their end, outside of any
        # group.
        "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "check.crcs",
        "enable.auto.commit", "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes",
        "group.id", "group.instance.id", "group.protocol", "heartbeat.interval.ms", "isolation.level",
        "key.deserializer", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records",
        "partition.assignment.strategy", "session.timeout.ms", "value.deserializer",
        # Properties of security. They have no effect, because Python's ssl module and the token provider decide
        # instead.
        "sasl.login.callback.handler.class", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms", "ssl.enabled.protocols", "ssl.keymanager.algorithm", "ssl.protocol",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
    }
)  # fmt: skip

_JVM_CLASS: Final = "it names a Java class, and there is no JVM in this client: remove it"

NO_COUNTERPART: Final[Mapping[str, str]] = {
    "bootstrap.controllers": "set bootstrap.servers",
    "config.providers": "set it in the worker's own properties",
    "interceptor.classes": f"{_JVM_CLASS}, and use a transform to change records",
    "partitioner.class": f"{_JVM_CLASS}; keyed records go where Kafka's default partitioner sends them",
    "proxy.url": "connect through a listener that the worker can reach",
    "sasl.client.callback.handler.class": f"{_JVM_CLASS}, and give the credentials in sasl.jaas.config",
    "sasl.kerberos.kinit.cmd": "use SCRAM-SHA-512 or OAUTHBEARER in place of GSSAPI",
    "sasl.kerberos.service.name": "use SCRAM-SHA-512 or OAUTHBEARER in place of GSSAPI",
    "sasl.login.class": f"{_JVM_CLASS}, and give the credentials in sasl.jaas.config",
    "security.providers": _JVM_CLASS,
    "ssl.cipher.suites": "Python's ssl module chooses among TLS 1.2 and 1.3 suites; limit them on the broker",
    "ssl.engine.factory.class": f"{_JVM_CLASS}, and give PEM files in ssl.keystore.location and ssl.truststore.location",
    "ssl.provider": _JVM_CLASS,
    "transaction.two.phase.commit.enable": "fencepost ends its transactions itself: remove it",
}
"""For each refused property, an alternative, for messages."""

FREE_PREFIXES: Final = ("metrics.context.",)
"""Prefixes of properties with free names: operators choose the part after the prefix."""

ALL: Final = frozenset(CLIENT.keys()) | frozenset(PRODUCER.keys()) | SECURITY | frozenset(FORCED) | WITHOUT_EFFECT
