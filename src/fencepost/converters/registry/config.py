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
    """Allow classes by their simple or full Java name."""

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
    """Allow some of Java's values, in upper or lower case; others are refused by name."""

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
        "The addresses of the registry, comma-separated: http://host:port. The next one is asked if one does not answer.",
        validator=not_empty,
    ).define(
        "schema.registry.url.randomize", _T.BOOLEAN, False, _I.LOW, "Whether the first address to ask is a random one.",
    ).define(
        "url.randomize", _T.BOOLEAN, False, _I.LOW, "The same under its other name.",
    ).define(
        "http.connect.timeout.ms", _T.INT, 60_000, _I.LOW, "The longest wait for a connection, in milliseconds.",
        validator=at_least(1),
    ).define(
        "http.read.timeout.ms", _T.INT, 60_000, _I.LOW, "The longest wait for an answer, in milliseconds.",
        validator=at_least(1),
    ).define(
        "max.retries", _T.INT, 3, _I.LOW,
        "How often an address is asked again after a failure that may pass. Then the task waits, and begins anew.",
        validator=at_least(0),
    ).define(
        "retries.wait.ms", _T.INT, 1000, _I.LOW,
        "The longest pause before the first retry, in milliseconds; it is random, and doubles each time.",
        validator=at_least(1),
    ).define(
        "retries.max.wait.ms", _T.INT, 20_000, _I.LOW, "The longest pause before any retry, in milliseconds.",
        validator=at_least(1),
    ).define(
        "proxy.host", _T.STRING, "", _I.LOW, "The host of an HTTP proxy.",
    ).define(
        "proxy.port", _T.INT, -1, _I.LOW, "The port of the proxy.",
    )  # fmt: skip


def _define_login(definitions: ConfigDef) -> None:
    definitions.define(
        "basic.auth.credentials.source", _T.STRING, "URL", _I.MEDIUM,
        "Where user and password are: URL (http://user:password@host), USER_INFO (basic.auth.user.info) or SASL_INHERIT "
        "(sasl.jaas.config below the converter).",
        validator=choice("URL", "USER_INFO", "SASL_INHERIT"),
    ).define(
        "basic.auth.user.info", _T.PASSWORD, "", _I.MEDIUM, "user:password.",
    ).define(
        "schema.registry.basic.auth.user.info", _T.PASSWORD, "", _I.LOW, "The former name of basic.auth.user.info.",
    ).define(
        "sasl.jaas.config", _T.PASSWORD, None, _I.LOW, "The login for basic.auth.credentials.source=SASL_INHERIT.",
    ).define(
        "bearer.auth.credentials.source", _T.STRING, "STATIC_TOKEN", _I.MEDIUM,
        "Where tokens come from: STATIC_TOKEN (bearer.auth.token) or OAUTHBEARER (a token endpoint).",
        validator=choice("STATIC_TOKEN", "OAUTHBEARER"),
    ).define(
        "bearer.auth.token", _T.PASSWORD, None, _I.MEDIUM, "A token.",
    ).define(
        "bearer.auth.issuer.endpoint.url", _T.STRING, None, _I.MEDIUM, "The token endpoint (client credentials grant).",
    ).define(
        "bearer.auth.client.id", _T.STRING, None, _I.MEDIUM, "The client that gets tokens.",
    ).define(
        "bearer.auth.client.secret", _T.PASSWORD, None, _I.MEDIUM, "Its secret.",
    ).define(
        "bearer.auth.scope", _T.STRING, None, _I.LOW, "The scope of tokens.",
    ).define(
        "bearer.auth.logical.cluster", _T.STRING, None, _I.LOW, "The header target-sr-cluster, for Confluent Cloud.",
    ).define(
        "bearer.auth.identity.pool.id", _T.STRING, None, _I.LOW,
        "The header Confluent-Identity-Pool-Id, for Confluent Cloud.",
    ).define(
        "bearer.auth.cache.expiry.buffer.seconds", _T.SHORT, 300, _I.LOW,
        "How long before a token expires the next one is fetched, in seconds.",
        validator=at_least(0),
    )  # fmt: skip


_TLS: Final[Mapping[str, tuple[PropertyType, str]]] = {
    "truststore.location": (_T.STRING, "The file with the certificates that are trusted. Unset: the system's."),
    "truststore.password": (_T.PASSWORD, "The password of that file."),
    "truststore.type": (_T.STRING, "Its format."),
    "truststore.certificates": (_T.PASSWORD, "The certificates that are trusted, as PEM."),
    "keystore.location": (_T.STRING, "The file with the client's key and certificate, for mutual TLS."),
    "keystore.password": (_T.PASSWORD, "The password of that file."),
    "keystore.type": (_T.STRING, "Its format."),
    "keystore.key": (_T.PASSWORD, "The client's key, as PEM."),
    "keystore.certificate.chain": (_T.PASSWORD, "The client's certificates, as PEM."),
    "key.password": (_T.PASSWORD, "The password of the client's key."),
    "endpoint.identification.algorithm": (_T.STRING, "https, or empty to leave the host's name unchecked."),
}


def _define_tls(definitions: ConfigDef) -> None:
    for name, (kind, documentation) in _TLS.items():
        definitions.define(SSL + name, kind, None, _I.LOW, documentation)


def _define_schemas(definitions: ConfigDef) -> None:
    definitions.define(
        "auto.register.schemas", _T.BOOLEAN, True, _I.MEDIUM,
        "Whether schemas are registered; otherwise they must be in the registry.",
    ).define(
        "normalize.schemas", _T.BOOLEAN, False, _I.MEDIUM, "Whether the registry normalizes schemas before it compares them.",
    ).define(
        "use.schema.id", _T.INT, -1, _I.LOW,
        "The id of the schema to write with, for auto.register.schemas=false; -1: none.",
    ).define(
        "use.schema.guid", _T.STRING, None, _I.LOW, "Its GUID, in place of the id.",
    ).define(
        "id.compatibility.strict", _T.BOOLEAN, True, _I.LOW,
        "Whether the schema of use.schema.id must have all that the records have. false: fields that it lacks are dropped.",
    ).define(
        "use.latest.version", _T.BOOLEAN, False, _I.LOW,
        "Whether records are written with the newest schema of the subject, for auto.register.schemas=false.",
    ).define(
        "latest.compatibility.strict", _T.BOOLEAN, True, _I.LOW,
        "Whether the newest schema must have all that the records have. false: fields that it lacks are dropped.",
    ).define(
        "latest.cache.ttl.sec", _T.INT, -1, _I.LOW,
        "After how many seconds the newest schema is looked up again; -1: when the task starts.",
        validator=at_least(-1),
    ).define(
        "key.schema.id.serializer", _T.CLASS, f"{_SERDES}PrefixSchemaIdSerializer", _I.LOW,
        "Where keys have the schema's id: PrefixSchemaIdSerializer, before the data, or HeaderSchemaIdSerializer, its GUID "
        "in a header.",
        validator=class_name(*_SERIALIZERS),
    ).define(
        "value.schema.id.serializer", _T.CLASS, f"{_SERDES}PrefixSchemaIdSerializer", _I.LOW, "The same of values.",
        validator=class_name(*_SERIALIZERS),
    ).define(
        SCHEMA_NAMES, _T.STRING, "connect", _I.MEDIUM,
        "How structs without a name are called in schemas. connect: as in Java, ConnectDefault, ConnectDefault2 and so on. "
        "topic: after the topic and the field, such as orders.Value and orders.Value.address. fencepost's own.",
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
            f"How the subject of {role}s is named: TopicNameStrategy (orders-{role}), RecordNameStrategy (the name of the "
            "schema), TopicRecordNameStrategy (both), or AssociatedNameStrategy: as the registry associates it with the "
            "topic, else as subject.name.strategy.fallback.type says.",
            validator=class_name(*STRATEGIES),
        )  # fmt: skip
    definitions.define(
        "subject.name.strategy.fallback.type", _T.STRING, "TOPIC", _I.LOW,
        "How AssociatedNameStrategy names subjects of topics without an association; NONE: it fails.",
        validator=choice("TOPIC", "RECORD", "TOPIC_RECORD", "NONE"),
    ).define(
        "subject.name.strategy.kafka.cluster.id", _T.STRING, "-", _I.LOW, "The namespace of associations.",
    ).define(
        "context.name.strategy", _T.CLASS, "io.confluent.kafka.serializers.context.NullContextNameStrategy", _I.LOW,
        f"{_ACCEPTED}set {CONTEXT} in place of a class.",
        validator=class_name("NullContextNameStrategy"),
    ).define(
        CONTEXT, _T.STRING, None, _I.LOW,
        "The context of all subjects, such as .staging: subjects become :.staging:orders-value. fencepost's own.",
        validator=_context,
    )  # fmt: skip


def _context(name: str, value: Any) -> None:
    if value is not None and (not value.startswith(".") or ":" in value):
        raise ConfigError(f"{name}={value} is not a context: its name begins with a dot and has no colon", name=name)


def _define_contracts(definitions: ConfigDef) -> None:
    for name in ("propagate.schema.tags", "validation.rules.enabled"):
        definitions.define(
            name, _T.BOOLEAN, False, _I.LOW, "Data contracts are not supported: only false is.", validator=_never,
        )  # fmt: skip


def _never(name: str, value: Any) -> None:
    if value:
        raise ConfigError(
            f"{name}=true is not supported: rules of data contracts are not run here. Remove it", name=name
        )
