"""The properties that all converters with a schema registry have, under Confluent's names and with its defaults.

https://docs.confluent.io/platform/current/schema-registry/connect.html. Names and defaults were read in
AbstractKafkaSchemaSerDeConfig.java and SchemaRegistryClientConfig.java of confluentinc/schema-registry, 8.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, PropertyType
from fencepost.api.errors import ConfigError
from fencepost.config.validators import at_least, not_empty
from fencepost.converters.registry.settings import SSL, URL
from fencepost.converters.registry.subjects import STRATEGIES

_T: Final = ConfigDef.Type
_I: Final = ConfigDef.Importance
_SERIALIZERS: Final = ("PrefixSchemaIdSerializer", "HeaderSchemaIdSerializer")
_SERDES: Final = "io.confluent.kafka.serializers.schema.id."
_ACCEPTED: Final = "Accepted for compatibility: "

CONTEXT: Final = "fencepost.registry.context"
SCHEMA_NAMES: Final = "fencepost.schema.names"


def class_name(*allowed: str) -> Any:
    """Return a validator that allows classes by their simple or full Java name."""

    def check(name: str, value: Any) -> None:
        if value is not None and simple_name(value) not in allowed:
            raise ConfigError(
                f"Invalid value {value!r} for the property {name}: it must be one of {', '.join(allowed)}; classes of your "
                "own are in Java, which does not run here",
                name=name,
            )

    return check


def simple_name(value: Any) -> str:
    """The last part of a Java class's name."""
    return str(value).strip().rpartition(".")[2]


def choice(*allowed: str) -> Any:
    """Return a validator that allows some of Java's values, in any case. The error names the refused value."""

    def check(name: str, value: Any) -> None:
        if str(value).upper() not in allowed:
            raise ConfigError(
                f"{name}={value} is not supported here: it must be one of {', '.join(allowed)}", name=name
            )

    return check


def define_registry(definitions: ConfigDef) -> ConfigDef:
    """Add the properties of the client, of subjects and of ids. Returns the definitions."""
    for define in (_define_server, _define_login, _define_tls, _define_schemas, _define_subjects, _define_contracts):
        define(definitions)
    return definitions


def _define_server(definitions: ConfigDef) -> None:
    definitions.define(
        URL, _T.LIST, ConfigDef.NO_DEFAULT, _I.HIGH,
        "The addresses of the schema registry, comma-separated, each as http://host:port. If one does not answer, the "
        "next one is tried.",
        validator=not_empty,
    ).define(
        "schema.registry.url.randomize", _T.BOOLEAN, False, _I.LOW,
        "Whether requests begin with a random address of schema.registry.url instead of the first one.",
    ).define(
        "url.randomize", _T.BOOLEAN, False, _I.LOW, "Another name of schema.registry.url.randomize.",
    ).define(
        "http.connect.timeout.ms", _T.INT, 60_000, _I.LOW,
        "How long establishing a connection to the registry may take, in milliseconds.",
        validator=at_least(1),
    ).define(
        "http.read.timeout.ms", _T.INT, 60_000, _I.LOW,
        "How long the registry may take to answer a request, in milliseconds.",
        validator=at_least(1),
    ).define(
        "max.retries", _T.INT, 3, _I.LOW,
        "How often a request to an address is retried after a transient failure. If all retries fail, the converter "
        "raises RetriableError: then errors.retry.timeout and task.restart.policy apply.",
        validator=at_least(0),
    ).define(
        "retries.wait.ms", _T.INT, 1000, _I.LOW,
        "The upper limit of the random pause before the first retry, in milliseconds. The limit doubles with each "
        "further retry.",
        validator=at_least(1),
    ).define(
        "retries.max.wait.ms", _T.INT, 20_000, _I.LOW,
        "The upper limit of the pause before any retry, in milliseconds.",
        validator=at_least(1),
    ).define(
        "proxy.host", _T.STRING, "", _I.LOW, "The host of an HTTP proxy through which the registry is reached.",
    ).define(
        "proxy.port", _T.INT, -1, _I.LOW, "The port of the HTTP proxy. Required with proxy.host.",
    )  # fmt: skip


def _define_login(definitions: ConfigDef) -> None:
    definitions.define(
        "basic.auth.credentials.source", _T.STRING, "URL", _I.MEDIUM,
        "Where the user and password for the registry come from. URL: from the address, as http://user:password@host. "
        "USER_INFO: from basic.auth.user.info. SASL_INHERIT: from sasl.jaas.config among the converter's properties.",
        validator=choice("URL", "USER_INFO", "SASL_INHERIT"),
    ).define(
        "basic.auth.user.info", _T.PASSWORD, "", _I.MEDIUM,
        "The user and password for basic.auth.credentials.source=USER_INFO, as user:password.",
    ).define(
        "schema.registry.basic.auth.user.info", _T.PASSWORD, "", _I.LOW, "An older name of basic.auth.user.info.",
    ).define(
        "sasl.jaas.config", _T.PASSWORD, None, _I.LOW,
        "The user and password for basic.auth.credentials.source=SASL_INHERIT, in Java's JAAS form.",
    ).define(
        "bearer.auth.credentials.source", _T.STRING, "STATIC_TOKEN", _I.MEDIUM,
        "Where the bearer token for the registry comes from. STATIC_TOKEN: from bearer.auth.token. OAUTHBEARER: from "
        "the token endpoint bearer.auth.issuer.endpoint.url.",
        validator=choice("STATIC_TOKEN", "OAUTHBEARER"),
    ).define(
        "bearer.auth.token", _T.PASSWORD, None, _I.MEDIUM, "The token for bearer.auth.credentials.source=STATIC_TOKEN.",
    ).define(
        "bearer.auth.issuer.endpoint.url", _T.STRING, None, _I.MEDIUM,
        "The address of the OAuth token endpoint, which must support the client credentials grant.",
    ).define(
        "bearer.auth.client.id", _T.STRING, None, _I.MEDIUM, "The OAuth client id with which tokens are requested.",
    ).define(
        "bearer.auth.client.secret", _T.PASSWORD, None, _I.MEDIUM, "The secret of this OAuth client.",
    ).define(
        "bearer.auth.scope", _T.STRING, None, _I.LOW, "The OAuth scope that is requested for tokens.",
    ).define(
        "bearer.auth.logical.cluster", _T.STRING, None, _I.LOW, "The HTTP header target-sr-cluster, for Confluent Cloud.",
    ).define(
        "bearer.auth.identity.pool.id", _T.STRING, None, _I.LOW,
        "The value of the HTTP header Confluent-Identity-Pool-Id, for Confluent Cloud.",
    ).define(
        "bearer.auth.cache.expiry.buffer.seconds", _T.SHORT, 300, _I.LOW,
        "How long before a token expires the next token is fetched, in seconds.",
        validator=at_least(0),
    )  # fmt: skip


_TLS: Final[Mapping[str, tuple[PropertyType, str]]] = {
    "truststore.location": (
        _T.STRING,
        "The file with the trusted certificates, in PEM format. Unset: the system's certificates.",
    ),
    "truststore.password": (_T.PASSWORD, "The password of the truststore."),
    "truststore.type": (_T.STRING, "The format of the truststore: only PEM is supported."),
    "truststore.certificates": (_T.PASSWORD, "The trusted certificates themselves, as PEM, in place of a file."),
    "keystore.location": (
        _T.STRING,
        "The file with the client's private key and certificates, in PEM format, for mutual TLS.",
    ),
    "keystore.password": (_T.PASSWORD, "The password of the keystore."),
    "keystore.type": (_T.STRING, "The format of the keystore: only PEM is supported."),
    "keystore.key": (_T.PASSWORD, "The client's private key itself, as PEM, in place of a file."),
    "keystore.certificate.chain": (_T.PASSWORD, "The client's certificates themselves, as PEM, in place of a file."),
    "key.password": (_T.PASSWORD, "The password of the client's private key."),
    "endpoint.identification.algorithm": (
        _T.STRING,
        (
            "Whether the registry's host name is checked against its certificate: https (also if unset), or empty for no "
            "check."
        ),
    ),
}


def _define_tls(definitions: ConfigDef) -> None:
    for name, (kind, documentation) in _TLS.items():
        definitions.define(SSL + name, kind, None, _I.LOW, documentation)


def _define_schemas(definitions: ConfigDef) -> None:
    definitions.define(
        "auto.register.schemas", _T.BOOLEAN, True, _I.MEDIUM,
        "Whether the converter registers schemas. If false, they must already be in the registry.",
    ).define(
        "normalize.schemas", _T.BOOLEAN, False, _I.MEDIUM, "Whether the registry normalizes schemas before it compares them.",
    ).define(
        "use.schema.id", _T.INT, -1, _I.LOW,
        "The id of the schema with which records are written, for auto.register.schemas=false; -1: none.",
    ).define(
        "use.schema.guid", _T.STRING, None, _I.LOW, "The GUID of this schema, in place of use.schema.id.",
    ).define(
        "id.compatibility.strict", _T.BOOLEAN, True, _I.LOW,
        "Whether the schema of use.schema.id must have all fields of records. false: fields that it lacks are dropped.",
    ).define(
        "use.latest.version", _T.BOOLEAN, False, _I.LOW,
        "Whether records are written with the subject's newest schema. Requires auto.register.schemas=false.",
    ).define(
        "latest.compatibility.strict", _T.BOOLEAN, True, _I.LOW,
        "Whether the newest schema must have all fields of the records. false: fields that it lacks are dropped.",
    ).define(
        "latest.cache.ttl.sec", _T.INT, -1, _I.LOW,
        "After how many seconds the newest schema is looked up again; -1: only when the task starts.",
        validator=at_least(-1),
    ).define(
        "key.schema.id.serializer", _T.CLASS, f"{_SERDES}PrefixSchemaIdSerializer", _I.LOW,
        "Where a key's schema id is written. PrefixSchemaIdSerializer: the id before the data. "
        "HeaderSchemaIdSerializer: the schema's GUID in a header.",
        validator=class_name(*_SERIALIZERS),
    ).define(
        "value.schema.id.serializer", _T.CLASS, f"{_SERDES}PrefixSchemaIdSerializer", _I.LOW,
        "Where a value's schema id is written, by the classes of key.schema.id.serializer.",
        validator=class_name(*_SERIALIZERS),
    ).define(
        SCHEMA_NAMES, _T.STRING, "connect", _I.MEDIUM,
        "The names that structs without a name get in schemas. connect: as in Java, ConnectDefault, ConnectDefault2 "
        "and so on. topic: names from the topic and the field, such as orders.Value and orders.Value.address. Java's "
        "converter does not have this property.",
        validator=_names,
    )  # fmt: skip


def _names(name: str, value: Any) -> None:
    if value not in ("connect", "topic"):
        raise ConfigError(f"Invalid value {value!r} for the property {name}: it must be connect or topic", name=name)


def _define_subjects(definitions: ConfigDef) -> None:
    for role in ("key", "value"):
        definitions.define(
            f"{role}.subject.name.strategy", _T.CLASS,
            "io.confluent.kafka.serializers.subject.AssociatedNameStrategy", _I.MEDIUM,
            f"How the subject of {role}s is named. TopicNameStrategy: orders-{role}. RecordNameStrategy: the name of the "
            "schema. TopicRecordNameStrategy: the topic and the name of the schema. AssociatedNameStrategy: the subject "
            "that the registry associates with the topic, else as subject.name.strategy.fallback.type says.",
            validator=class_name(*STRATEGIES),
        )  # fmt: skip
    definitions.define(
        "subject.name.strategy.fallback.type", _T.STRING, "TOPIC", _I.LOW,
        "How AssociatedNameStrategy names the subject if the registry has no association for the topic: by the "
        "TopicNameStrategy (TOPIC), RecordNameStrategy (RECORD) or TopicRecordNameStrategy (TOPIC_RECORD). NONE: it "
        "fails.",
        validator=choice("TOPIC", "RECORD", "TOPIC_RECORD", "NONE"),
    ).define(
        "subject.name.strategy.kafka.cluster.id", _T.STRING, "-", _I.LOW,
        "The Kafka cluster's id, which AssociatedNameStrategy uses as the namespace of associations in the "
        "registry.",
    ).define(
        "context.name.strategy", _T.CLASS, "io.confluent.kafka.serializers.context.NullContextNameStrategy", _I.LOW,
        f"{_ACCEPTED}set {CONTEXT} in place of a class.",
        validator=class_name("NullContextNameStrategy"),
    ).define(
        CONTEXT, _T.STRING, None, _I.LOW,
        "The registry's context for all subjects, such as .staging: the subject orders-value becomes "
        ":.staging:orders-value. Java's converter does not have this property.",
        validator=_context,
    )  # fmt: skip


def _context(name: str, value: Any) -> None:
    if value is not None and (not value.startswith(".") or ":" in value):
        raise ConfigError(f"{name}={value} is not a context: its name begins with a dot and has no colon", name=name)


def _define_contracts(definitions: ConfigDef) -> None:
    for name in ("propagate.schema.tags", "validation.rules.enabled"):
        definitions.define(
            name, _T.BOOLEAN, False, _I.LOW, "Only false is supported: data contracts are not.", validator=_never,
        )  # fmt: skip


def _never(name: str, value: Any) -> None:
    if value:
        raise ConfigError(
            f"{name}=true is not supported: rules of data contracts are not run here. Remove it", name=name
        )
