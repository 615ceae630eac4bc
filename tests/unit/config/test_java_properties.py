"""Each property of the Java classes is supported, or refused by name, or has no effect on a source."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.connector_config import PluginSpec, TransformSpec
from fencepost.config.java_properties import refusals, takes_any_property, without_effect
from fencepost.config.plugin_instances import plugin_definitions
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.config.plugins import PluginKind, find_plugin, plugin_entry_points
from fencepost.converters.avro.converter import AvroConverter
from fencepost.engine.plugin_builder import PluginBuilder

_NULLS, _SYNTAX = "replace.null.with.default", "field.syntax.version"
_OF_CONVERTERS = ("converter.type",)
_JSON = ("schemas.enable", "schemas.cache.size", "decimal.format", _NULLS, "schema.content")
_STRING = ("converter.encoding", *(f"{of}serializer.encoding" for of in ("key.", "value.", "de", "key.de", "value.de")))
_REGISTRY = (
    "schema.registry.url",
    "schema.registry.url.randomize",
    "url.randomize",
    "auto.register.schemas",
    "use.schema.id",
    "use.schema.guid",
    "id.compatibility.strict",
    "use.latest.version",
    "latest.compatibility.strict",
    "use.latest.with.metadata",
    "latest.cache.size",
    "latest.cache.ttl.sec",
    "normalize.schemas",
    "max.schemas.per.subject",
    "key.subject.name.strategy",
    "value.subject.name.strategy",
    "subject.name.strategy.fallback.type",
    "subject.name.strategy.kafka.cluster.id",
    "subject.name.strategy.cache.size",
    "subject.name.strategy.cache.expiry.secs",
    "context.name.strategy",
    "key.schema.id.serializer",
    "value.schema.id.serializer",
    "key.schema.id.deserializer",
    "value.schema.id.deserializer",
    "schema.format",
    "propagate.schema.tags",
    "rule.executors",
    "rule.actions",
    "rule.service.loader.enable",
    "execution.environment",
    "validation.rules.enabled",
    "http.connect.timeout.ms",
    "http.read.timeout.ms",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
    "missing.id.cache.ttl.sec",
    "missing.version.cache.ttl.sec",
    "missing.schema.cache.ttl.sec",
    "missing.cache.size",
    "proxy.host",
    "proxy.port",
    "basic.auth.credentials.source",
    "basic.auth.user.info",
    "schema.registry.basic.auth.user.info",
    "bearer.auth.credentials.source",
    "bearer.auth.token",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.scope",
    "bearer.auth.scope.claim.name",
    "bearer.auth.sub.claim.name",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
    "bearer.auth.cache.expiry.buffer.seconds",
    "schema.registry.ssl.truststore.location",
    "schema.registry.ssl.keystore.location",
    "schema.registry.ssl.keystore.password",
    "schemas.cache.config",
    "generalized.sum.type.support",
    "ignore.default.for.nullables",
    "converter.type",
)
_AVRO = (
    "enhanced.avro.schema.support", "scrub.invalid.names", "connect.meta.data", "allow.optional.map.keys",
    "flatten.singleton.unions", "discard.type.doc.default", "specific.avro.reader", "avro.reflection.allow.null",
    "avro.use.logical.type.converters",
)  # fmt: skip
_JSON_SCHEMA = (
    "json.fail.invalid.schema", "json.fail.unknown.properties", "json.write.dates.iso8601", "json.schema.spec.version",
    "json.oneof.for.nullables", "json.default.property.inclusion", "json.indent.output", "json.envelope.detection",
    "json.validate.before.domain.rules", "object.additional.properties", "use.optional.for.nonrequired", "decimal.format",
    "ignore.modern.dialects", "flatten.singleton.unions", "preserve.additional.properties",
)  # fmt: skip
_PROTOBUF = (
    "enhanced.protobuf.schema.support", "scrub.invalid.names", "optional.for.nullables", "wrapper.for.nullables",
    "wrapper.for.raw.primitives", "int.for.enums", "optional.for.proto2", "generate.struct.for.nulls",
    "generate.index.for.unions", "flatten.unions", "reference.lookup.only", "skip.known.types",
    "reference.subject.name.strategy", "specific.protobuf.key.type", "specific.protobuf.value.type", "derive.type",
)  # fmt: skip

_APICURIO = (
    *(
        f"apicurio.registry.{name}"
        for name in (
            "url", "is-key", "auto-register", "auto-register.if-exists", "find-latest", "cache-latest", "fault-tolerant-refresh",
            "artifact-resolver-strategy", "artifact.group-id", "artifact.artifact-id", "artifact.version",
            "artifact.schema.location", "schema-resolver", "id-handler", "as-confluent", "use-id", "headers.enabled",
            "headers.handler", "check-period-ms", "retry-count",
            "retry-backoff-ms", "dereference-schema", "serializer.dereference-schema", "deserializer.dereference-schema",
            "deserializer.key.return-class", "deserializer.value.return-class", "fallback.group-id", "fallback.artifact-id",
            "fallback.version", "fallback.provider", "serde.validation-enabled", "avro.encoding", "avro-datum-provider",
            "use-specific-avro-reader", "converter.serializer", "converter.deserializer", "auth.service.token.endpoint",
            "auth.client.id", "auth.client.secret", "auth.client.scope", "auth.username", "auth.password",
            "request.ssl.truststore.location", "request.ssl.keystore.password", "request.ssl.key.password",
        )
    ),
    *(
        f"apicurio.auth.{name}"
        for name in (
            "service.token.endpoint", "service.url", "realm", "client.id", "client.secret", "client.scope", "username", "password",
        )
    ),
    *(
        f"apicurio.registry.headers.{role}.{part}.name"
        for role in ("key", "value")
        for part in ("groupId", "artifactId", "version", "globalId", "contentId", "contentHash", "msgType")
    ),
    "enhanced.avro.schema.support", "connect.meta.data",
    # Confluent's properties without effect.
    *(name for name in (*_REGISTRY, *_AVRO) if name in without_effect(AvroConverter)),
)  # fmt: skip

TRANSFORMS: Mapping[str, tuple[str, ...]] = {
    "ByLogicalTableRouter": (
        "topic.regex", "topic.replacement", "key.enforce.uniqueness", "key.field.name", "key.field.regex",
        "key.field.replacement", "schema.name.adjustment.mode", "logical.destination.cache.size",
    ),
    "ContentBasedRouter": ("topic.regex", "language", "topic.expression", "null.handling.mode"),
    "EventRouter": (
        "table.field.event.id", "table.field.event.key", "table.field.event.type", "table.field.event.payload",
        "table.field.event.timestamp", "table.field.event.schema.version", "table.fields.additional.placement",
        "table.op.invalid.behavior", "table.expand.json.payload", "table.json.payload.null.behavior", "route.by.field",
        "route.topic.regex", "route.topic.replacement", "route.tombstone.on.empty.payload", "tracing.span.context.field",
        "tracing.operation.name", "tracing.with.context.field.only",
    ),
    "Sql": (),
    "Cast": ("spec", _NULLS),
    "DropHeaders": ("headers",),
    "ExtractField": ("field", _SYNTAX, _NULLS),
    "Filter": (),
    "Flatten": ("delimiter",),
    "HeaderFrom": ("fields", "headers", "operation", _SYNTAX, _NULLS),
    "HoistField": ("field",),
    "InsertField": (
        "topic.field", "partition.field", "offset.field", "timestamp.field", "static.field", "static.value", _SYNTAX, _NULLS,
    ),
    "InsertHeader": ("header", "value.literal"),
    "MaskField": ("fields", "replacement", _SYNTAX, _NULLS),
    "RegexRouter": ("regex", "replacement"),
    "ReplaceField": ("exclude", "include", "renames", "blacklist", "whitelist", _SYNTAX, _NULLS),
    "SetSchemaMetadata": ("schema.name", "schema.version", _NULLS),
    "TimestampConverter": ("field", "target.type", "format", "unix.precision", _SYNTAX, _NULLS),
    "TimestampRouter": ("topic.format", "timestamp.format"),
    "ValueToKey": ("fields", _SYNTAX, _NULLS),
    "ExtractNewRecordState": (
        "delete.tombstone.handling.mode", "route.by.field", "add.fields", "add.fields.prefix", "add.headers",
        "add.headers.prefix", "drop.fields.header.name", "drop.fields.from.key", "drop.fields.keep.schema.compatible",
        "drop.tombstones", "delete.handling.mode", _NULLS,
    ),
}  # fmt: skip
PREDICATES = {"Sql": (), "HasHeaderKey": ("name",), "RecordIsTombstone": (), "TopicNameMatches": ("pattern",)}
CONVERTERS = {
    **dict.fromkeys(
        (
            "BooleanConverter", "ByteArrayConverter", "DoubleConverter", "FloatConverter", "IntegerConverter",
            "LongConverter", "ShortConverter", "SimpleHeaderConverter",
        ),
        _OF_CONVERTERS,
    ),
    "AvroConverter": (*_REGISTRY, *_AVRO),
    "ApicurioAvroConverter": _APICURIO,
    "JsonSchemaConverter": (*_REGISTRY, *_JSON_SCHEMA),
    "ProtobufConverter": (*_REGISTRY, *_PROTOBUF),
    "JsonConverter": (*_JSON, *_OF_CONVERTERS),
    "StringConverter": (*_STRING, *_OF_CONVERTERS),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "java"),
    [
        (PluginKind.TRANSFORMATION, TRANSFORMS), (PluginKind.PREDICATE, PREDICATES), (PluginKind.CONVERTER, CONVERTERS),
        (PluginKind.HEADER_CONVERTER, CONVERTERS),
    ],
)  # fmt: skip
def test_each_property_of_java_is_done_or_refused_or_has_no_effect(
    kind: PluginKind, java: Mapping[str, tuple[str, ...]]
) -> None:
    found = set()
    for entry in plugin_entry_points(kind):
        name = entry.name.partition("$")[0]
        if "." in name or not entry.value.startswith("fencepost."):
            continue
        found.add(name)
        plugin = entry.load()
        defined = plugin_definitions(kind, plugin).keys()
        refused = refusals(plugin, dict.fromkeys(java[name], "x"))
        assert set(java[name]) == set(defined) & set(java[name]) | set(refused) | set(without_effect(plugin)), (
            entry.name
        )
        assert not set(refused) & {*defined, *without_effect(plugin)}
        assert not takes_any_property(plugin, defined)
    assert found == set(java)


def test_a_subclass_refuses_the_same_properties_as_its_base() -> None:
    """The variants for keys are subclasses, and users may have subclasses as well."""
    plugin = find_plugin(PluginKind.TRANSFORMATION, "InsertField$Key", property_name="type", sources=ANY_MODULE)
    assert "no meaning for a source" in refusals(plugin, {"offset.field": "o"})["offset.field"]
    assert refusals(plugin, {"offset.field": " "}) == {}


def test_a_chain_with_a_refused_property_is_not_built() -> None:
    spec = PluginSpec("ReplaceField$Value", {"blacklist": "secret"})
    with pytest.raises(ConfigError, match="blacklist of ReplaceField is not supported: set exclude") as raised:
        PluginBuilder(ANY_MODULE).step(TransformSpec("a", spec))
    assert raised.value.name == "transforms.a.blacklist"
