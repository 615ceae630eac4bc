"""Properties of the built-in plugins' Java classes that our Python classes do not define.

A property is one of four things: defined by our class; accepted, because it has no effect on a source; refused, because
records would differ from Java's; or unknown to both, which causes only a warning, because Java ignores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_CONVERTERS: Final = "fencepost.converters"
_TRANSFORMS: Final = "fencepost.transforms"

_FILTER: Final = "this Filter has no condition and would drop all records: set predicate, or take type=Sql with where"
_ENCODING: Final = "set converter.encoding instead"
_MODE: Final = "set delete.tombstone.handling.mode instead"
_JAVA_CLASS: Final = "it is a class in Java, which does not run here"
_RULES: Final = "rules of data contracts change the data, and are not run here"

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    f"{_CONVERTERS}.string_converter.StringConverter": {
        "key.serializer.encoding": _ENCODING,
        "value.serializer.encoding": _ENCODING,
    },
    f"{_CONVERTERS}.registry.base.RegistryConverter": {
        "use.latest.with.metadata": "set use.latest.version or use.schema.id instead",
        "rule.executors": _RULES,
        "rule.actions": _RULES,
        "schema.format": "a registry gets schemas in their own format",
    },
    f"{_CONVERTERS}.avro.apicurio.ApicurioAvroConverter": {
        "apicurio.registry.artifact.artifact-id": "schemas are named after their topic",
        "apicurio.registry.artifact.version": "set apicurio.registry.find-latest instead",
        "apicurio.registry.artifact.schema.location": "schemas come from the records",
        "apicurio.registry.schema-resolver": _JAVA_CLASS,
        "apicurio.registry.converter.serializer": _JAVA_CLASS,
    },
    f"{_TRANSFORMS}.fields.InsertField": {
        "offset.field": "it has no meaning for a source, because the offset is not known before the record is written",
    },
    f"{_TRANSFORMS}.fields.ReplaceField": {
        "blacklist": "set exclude instead",
        "whitelist": "set include instead",
    },
    f"{_TRANSFORMS}.filter.Filter": {"condition": _FILTER, "filter.condition": _FILTER},
    f"{_TRANSFORMS}.new_record_state.ExtractNewRecordState": {
        "drop.tombstones": _MODE,
        "delete.handling.mode": _MODE,
        "operation.header": "set add.headers=op instead",
        "add.source.fields": "set add.fields instead",
    },
    f"{_TRANSFORMS}.sql_table.ByLogicalTableRouter": {
        "schema.name.adjustment.mode": "names of schemas stay as they are",
    },
}
"""For each class, the refused properties and the reasons. Old properties that guides still mention are included."""

WITHOUT_EFFECT: Final[Mapping[str, frozenset[str]]] = {
    f"{_CONVERTERS}.base.BuiltinConverter": frozenset({"converter.type"}),
    f"{_CONVERTERS}.registry.base.RegistryConverter": frozenset(
        {
            "max.schemas.per.subject",
            "schemas.cache.config",
            "latest.cache.size",
            "missing.id.cache.ttl.sec",
            "missing.version.cache.ttl.sec",
            "missing.schema.cache.ttl.sec",
            "missing.cache.size",
            "subject.name.strategy.cache.size",
            "subject.name.strategy.cache.expiry.secs",
            "bearer.auth.scope.claim.name",
            "bearer.auth.sub.claim.name",
            "execution.environment",
            "rule.service.loader.enable",
            "key.schema.id.deserializer",
            "value.schema.id.deserializer",
        }
    ),
    f"{_CONVERTERS}.avro.converter.AvroConverter": frozenset(
        {
            "specific.avro.reader",
            "avro.reflection.allow.null",
            "avro.use.logical.type.converters",
            "flatten.singleton.unions",
            "discard.type.doc.default",
            "ignore.default.for.nullables",
        }
    ),
    f"{_CONVERTERS}.avro.apicurio.ApicurioAvroConverter": frozenset(
        f"apicurio.registry.{name}"
        for name in (
            "is-key",
            "cache-latest",
            "fault-tolerant-refresh",
            "headers.handler",
            "dereference-schema",
            "serializer.dereference-schema",
            "deserializer.dereference-schema",
            "deserializer.key.return-class",
            "deserializer.value.return-class",
            "fallback.group-id",
            "fallback.artifact-id",
            "fallback.version",
            "fallback.provider",
            "serde.validation-enabled",
            "use-specific-avro-reader",
            "converter.deserializer",
            *(
                f"headers.{role}.{part}.name"
                for role in ("key", "value")
                for part in ("groupId", "artifactId", "version", "globalId", "contentId", "contentHash", "msgType")
            ),
        )
    ),
    f"{_CONVERTERS}.protobuf.converter.ProtobufConverter": frozenset(
        {
            "enhanced.protobuf.schema.support",
            "wrapper.for.raw.primitives",
            "int.for.enums",
            "optional.for.proto2",
            "generate.struct.for.nulls",
            "generate.index.for.unions",
            "flatten.unions",
            "generalized.sum.type.support",
            "ignore.default.for.nullables",
            "reference.lookup.only",
            "reference.subject.name.strategy",
            "specific.protobuf.key.type",
            "specific.protobuf.value.type",
            "derive.type",
        }
    ),
    f"{_CONVERTERS}.jsonschema.converter.JsonSchemaConverter": frozenset(
        {
            "json.fail.unknown.properties",
            "json.write.dates.iso8601",
            "json.schema.spec.version",
            "json.oneof.for.nullables",
            "json.default.property.inclusion",
            "json.indent.output",
            "json.envelope.detection",
            "json.validate.before.domain.rules",
            "use.optional.for.nonrequired",
            "ignore.modern.dialects",
            "flatten.singleton.unions",
            "preserve.additional.properties",
            "ignore.default.for.nullables",
            "generalized.sum.type.support",
        }
    ),
    f"{_CONVERTERS}.simple_header_converter.SimpleHeaderConverter": frozenset({"converter.type"}),
    f"{_TRANSFORMS}.outbox.EventRouter": frozenset(
        {"tracing.span.context.field", "tracing.operation.name", "tracing.with.context.field.only"}
    ),
    f"{_TRANSFORMS}.sql_table.ByLogicalTableRouter": frozenset({"logical.destination.cache.size"}),
    f"{_CONVERTERS}.string_converter.StringConverter": frozenset(
        {"deserializer.encoding", "key.deserializer.encoding", "value.deserializer.encoding"}
    ),
}
"""Accepted properties: for sinks, for caches, for defaults of fields, and properties that a Java worker sets itself."""

OPEN_PREFIXES: Final[Mapping[str, frozenset[str]]] = {
    f"{_CONVERTERS}.registry.base.RegistryConverter": frozenset({"request.header."}),
    f"{_CONVERTERS}.avro.apicurio.ApicurioAvroConverter": frozenset({"apicurio.registry.request.headers."}),
}
"""Prefixes of properties whose names may end with any text."""


def refusals(plugin: type[Any], properties: Mapping[str, str]) -> dict[str, str]:
    """Return the refused properties that are set for a plugin's class, each with a message."""
    return {
        name: f"The property {name} of {plugin.__name__} is not supported: {reason}. Remove {name}"
        for table in _of_class(plugin, REFUSED)
        for name, reason in table.items()
        if properties.get(name, "").strip()
    }


def without_effect(plugin: type[Any]) -> frozenset[str]:
    """Return the properties of a plugin's class that are accepted, though they change nothing."""
    return frozenset().union(*_of_class(plugin, WITHOUT_EFFECT))


def open_prefixes(plugin: type[Any]) -> frozenset[str]:
    """Return the prefixes of a plugin's properties that may have any name."""
    return frozenset().union(*_of_class(plugin, OPEN_PREFIXES))


def takes_any_property(plugin: type[Any], defined: Iterable[str]) -> bool:
    """Whether a plugin accepts any property: because it defines none, and is not built in."""
    return not list(defined) and not plugin.__module__.startswith("fencepost.")


def _of_class(plugin: type[Any], tables: Mapping[str, Any]) -> Iterator[Any]:
    for base in plugin.__mro__:
        name = f"{base.__module__}.{base.__qualname__}"
        if name in tables:
            yield tables[name]
