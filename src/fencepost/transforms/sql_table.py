"""Small transforms of other vendors, made of a few SQL expressions each. They are defined by the rows of a table.

A row of the table has the properties of the Java class, and a function that returns properties of Sql with the same
effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from pyspark.sql.types import StructType

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.spark_names import backticked
from fencepost.config.java_regex import check_replacement, java_pattern, java_regex
from fencepost.config.validators import not_blank, one_of
from fencepost.transforms.base import planned_by_schema
from fencepost.transforms.sql import SqlTransformation, define_common
from fencepost.transforms.sql_translation import translated

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_NULLS: Final = ("keep", "drop", "evaluate")

Translation = Callable[[Mapping[str, Any], StructType], Mapping[str, str | None]]
"""Takes parsed properties, and the types of a record's columns. Returns properties of Sql."""


class TableTransformation(SqlTransformation):
    """A transform from a row of the table. The row translates the transform's properties to properties of Sql."""

    translation: ClassVar[Translation]
    check: ClassVar[Callable[[Mapping[str, Any]], None]]

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for properties that the transform refuses."""
        type(self).check(self.definitions.parse(configs))
        super().configure(configs)

    def sql(self, schema: StructType) -> Mapping[str, str | None]:
        """Return the properties of Sql."""
        return type(self).translation(self.properties, schema)


def defined(
    name: str,
    doc: str,
    definitions: ConfigDef,
    translation: Translation,
    check: Callable[[Mapping[str, Any]], None] = lambda _: None,
    *,
    written: Sequence[str] = (),
) -> type[TableTransformation]:
    """Return the class that a row of the table defines. The calling module assigns it to its name.

    `check` raises ConfigError if parsed properties do not fit together. `written` are the properties in which users
    write SQL.
    """
    members = {
        "__doc__": doc,
        "__module__": translation.__module__,
        "definitions": definitions,
        "translation": staticmethod(translation),
        "check": staticmethod(check),
        "written": written,
    }
    return planned_by_schema(type(name, (TableTransformation,), members))


def defined_for_parts(
    name: str,
    doc: str,
    definitions: ConfigDef,
    translation: Callable[[str], Translation],
    check: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> tuple[type[TableTransformation], type[TableTransformation]]:
    """Return the class for values, and the class for keys, `<name>Key`.

    `translation` is called with "value" or "key". The same text replaces {part} in `doc`.
    """
    value, key = (
        defined(whole, doc.format(part=part), definitions, translation(part), check)
        for whole, part in ((name, "value"), (f"{name}Key", "key"))
    )
    return value, key


def sql_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql_path(*parts: str) -> str:
    """Return the path of a field as SQL."""
    return ".".join(backticked(part) for part in parts)


def replaced_fields(part: str, kind: StructType, changes: Mapping[str, str]) -> str:
    """Return a struct, as SQL, in which expressions replace some of the fields."""
    fields = (f"{sql_text(name)}, {changes.get(name) or sql_path(part, name)}" for name in kind.names)
    return f"CASE WHEN {part} IS NOT NULL THEN named_struct({', '.join(fields)}) END"


def _scripting(expression: str, doc: str) -> ConfigDef:
    return define_common(
        ConfigDef()
        .define(
            "language", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "The language of the expression: only sql, Spark's SQL, is supported. Scripting languages are refused; "
            "the error shows the expression in SQL.", validator=not_blank,
        )
        .define(expression, _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH, doc, validator=not_blank)
        .define(
            "topic.regex", _Type.STRING, None, _Importance.LOW,
            "A regular expression (Java's) that the whole name of a topic must match for the expression to be "
            "evaluated. Records of other topics pass unchanged. Unset: all topics.", validator=java_pattern,
        )
        .define(
            "null.handling.mode", _Type.STRING, "keep", _Importance.LOW,
            "What happens to records whose value is null. keep: they pass unchanged. drop: they are dropped. "
            "evaluate: the expression is evaluated for them.", validator=one_of(_NULLS),
        )
    )  # fmt: skip


def _only_sql(expression: str) -> Callable[[Mapping[str, Any]], None]:
    def check(given: Mapping[str, Any]) -> None:
        if given["language"].lower() != "sql":
            raise ConfigError(
                f"language={given['language']} needs a scripting engine, and a worker of fencepost has none. The "
                f"expression in SQL, as far as it is translated: language=sql and {expression}="
                f"{translated(given[expression])}",
                name="language",
            )

    return check


def _of_topics(given: Mapping[str, Any]) -> str:
    pattern = given["topic.regex"]
    return f"topic RLIKE {sql_text(java_regex('topic.regex', pattern).whole)}" if pattern else "true"


def _filtered(given: Mapping[str, Any], _: StructType) -> Mapping[str, str | None]:
    mode = given["null.handling.mode"].lower()
    null = "" if mode == "evaluate" else f"WHEN value IS NULL THEN {str(mode == 'keep').lower()} "
    # A comment in the condition ends at the line break.
    return {"where": f"CASE WHEN NOT {_of_topics(given)} THEN true {null}ELSE ({given['condition']}\n) END"}


def _routed(given: Mapping[str, Any], _: StructType) -> Mapping[str, str | None]:
    mode = given["null.handling.mode"].lower()
    evaluated = _of_topics(given) + ("" if mode == "evaluate" else " AND value IS NOT NULL")
    dropped = f"value IS NOT NULL OR NOT {_of_topics(given)}" if mode == "drop" else None
    return {"topic": f"CASE WHEN {evaluated} THEN ({given['topic.expression']}\n) END", "where": dropped}


DebeziumFilter = defined(
    "DebeziumFilter",
    "Keeps records for which a condition in SQL is true. Debezium's.",
    _scripting(
        "condition",
        "The condition in SQL: records for which it is true are kept. It may use value, key, topic, headers and "
        "timestamp.",
    ),
    _filtered,
    _only_sql("condition"),
    written=("condition",),
)
ContentBasedRouter = defined(
    "ContentBasedRouter",
    "Routes records to the topic that an SQL expression returns. If it returns null, the topic stays. Debezium's.",
    _scripting(
        "topic.expression", "The expression in SQL that returns the topic. If it returns null, the topic stays."
    ),
    _routed,
    _only_sql("topic.expression"),
    written=("topic.expression",),
)


def _skipped_or(text: str, what: str, *, skip: bool) -> str:
    why = sql_text(f"A record has no {what}: fill it in, or set skip.missing.or.null=true")
    return text if skip else f"coalesce({text}, raise_error({why}))"


def _define_field(name: str, doc: str) -> ConfigDef:
    return (
        ConfigDef()
        .define(name, _Type.STRING, "", _Importance.HIGH, doc)
        .define(
            "skip.missing.or.null", _Type.BOOLEAN, False, _Importance.LOW,
            "Whether records in which the field is missing or null pass unchanged. If false, they are refused (see "
            "errors.tolerance).",
        )
    )  # fmt: skip


def _field_of(part: str, field: str, given: Mapping[str, Any], schema: StructType) -> str | None:
    """Return the path of a field of the key or value; if `field` is empty, the path of the whole key or value.

    Returns None if the field is missing and `skip.missing.or.null` is true.
    """
    kind = schema[part].dataType
    is_missing = field and isinstance(kind, StructType) and field not in kind.names
    if is_missing and given["skip.missing.or.null"]:
        return None
    return sql_path(part, field) if field else part


def _extracted_topic(name: str, part: str) -> Translation:
    def sql(given: Mapping[str, Any], schema: StructType) -> Mapping[str, str | None]:
        path = _field_of(part, given[name], given, schema)
        if path is None:
            return {}
        what = f"field {given[name]} for the topic" if given[name] else f"{part} for the topic"
        return {"topic": _skipped_or(f"CAST({path} AS STRING)", what, skip=given["skip.missing.or.null"])}

    return sql


_HASHES: Final = {"md5": "md5({0})", "sha1": "sha1({0})", "sha256": "sha2({0}, 256)"}


def _hashed(part: str) -> Translation:
    def sql(given: Mapping[str, Any], schema: StructType) -> Mapping[str, str | None]:
        field, kind = given["field.name"], schema[part].dataType
        path = _field_of(part, field, given, schema)
        if path is None:
            return {}
        content = _HASHES[given["function"].lower()].format(f"CAST({path} AS STRING)")
        content = _skipped_or(
            content, f"field {field} to hash" if field else f"{part} to hash", skip=given["skip.missing.or.null"]
        )
        if not field or not isinstance(kind, StructType):
            return {part: content}
        return {part: replaced_fields(part, kind, {field: content})}

    return sql


def _by_field_value(given: Mapping[str, Any], schema: StructType) -> Mapping[str, str | None]:
    path = sql_path("value", given["field.name"]) if given["field.name"] else "value"
    text = f"CAST({path} AS STRING)"
    if given["field.value"] is not None:
        found = f"{text} = {sql_text(given['field.value'])}"
    else:
        pattern = java_regex("field.value.pattern", given["field.value.pattern"]).whole
        found = f"{text} RLIKE {sql_text(pattern)}"
    del schema
    return {"where": f"coalesce({found}, false) = {str(given['field.value.matches']).lower()}"}


def _value_or_pattern(given: Mapping[str, Any]) -> None:
    if (given["field.value"] is None) == (given["field.value.pattern"] is None):
        raise ConfigError("Set one of field.value and field.value.pattern", name="field.value")


def _tombstones(given: Mapping[str, Any], _: StructType) -> Mapping[str, str | None]:
    behavior = given["behavior"].lower()
    if behavior in ("ignore", "warn"):
        return {}
    if behavior == "fail":
        why = sql_text("A record has no value, which behavior=fail refuses: see TombstoneHandler")
        return {"where": f"CASE WHEN value IS NULL THEN raise_error({why}) ELSE true END"}
    return {"where": "value IS NOT NULL"}


def _logical(given: Mapping[str, Any], schema: StructType) -> Mapping[str, str | None]:
    regex = sql_text(java_regex("topic.regex", given["topic.regex"]).whole)
    routed = f"regexp_replace(topic, {regex}, {sql_text(given['topic.replacement'])})"
    if not given["key.enforce.uniqueness"] or not isinstance(schema["key"].dataType, StructType):
        return {"topic": routed}
    table = "topic"
    if given["key.field.regex"]:
        of_key = sql_text(java_regex("key.field.regex", given["key.field.regex"]).whole)
        table = f"regexp_replace(topic, {of_key}, {sql_text(given['key.field.replacement'])})"
    unique = f"CASE WHEN key IS NOT NULL THEN struct(key.*, {table} AS {backticked(given['key.field.name'])}) END"
    return {"topic": routed, "key": unique}


def _replacements(given: Mapping[str, Any]) -> None:
    """Refuse a replacement with groups that its regular expression lacks, and an expression without a replacement."""
    for kind in ("topic", "key.field"):
        regex, name = given[f"{kind}.regex"], f"{kind}.replacement"
        if regex and not given[name]:
            raise ConfigError(f"Set {name}: without it, all tables would have one name", name=name)
        try:
            check_replacement(java_regex(f"{kind}.regex", regex or ""), given[name] or "")
        except ValueError as error:
            raise ConfigError(f"The replacement {given[name]!r} {error}", name=name) from None


_TOPIC: Final = "Routes records to the topic that the {part}, or one of its fields, names."
_TOPIC_FIELD: Final = "The field whose value becomes the topic. Empty: the whole key or value."
ExtractTopic, ExtractTopicKey = defined_for_parts(
    "ExtractTopic",
    f"{_TOPIC} Confluent's.",
    _define_field("field", _TOPIC_FIELD).define(
        "field.format", _Type.STRING, "PLAIN", _Importance.LOW,
        "Only PLAIN is supported: field is the name of a field. For a path, use the property topic of the transform "
        "Sql.",
        validator=one_of(("PLAIN",)),
    ),
    partial(_extracted_topic, "field"),
)  # fmt: skip
AivenExtractTopic, AivenExtractTopicKey = defined_for_parts(
    "AivenExtractTopic",
    f"{_TOPIC} Aiven's.",
    _define_field("field.name", _TOPIC_FIELD),
    partial(_extracted_topic, "field.name"),
)
Hash, HashKey = defined_for_parts(
    "Hash",
    "Replaces the {part}, or one of its fields, by its hash. Aiven's.",
    _define_field("field.name", "The field to hash. Empty: the whole key or value.").define(
        "function", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The hash function: md5, sha1 or sha256. The hash is written in hexadecimal.",
        validator=one_of(tuple(_HASHES)),
    ),
    _hashed,
)  # fmt: skip
FilterByFieldValue = defined(
    "FilterByFieldValue",
    "Keeps records in which a field has a value, or matches a pattern. Aiven's.",
    ConfigDef()
    .define("field.name", _Type.STRING, "", _Importance.HIGH, "The field to compare. Empty: the whole value.")
    .define(
        "field.value", _Type.STRING, None, _Importance.HIGH,
        "The value to compare with, as text. Set this or field.value.pattern.",
    )
    .define(
        "field.value.pattern", _Type.STRING, None, _Importance.HIGH,
        "A regular expression (Java's) that the field's whole value must match.", validator=java_pattern,
    )
    .define(
        "field.value.matches", _Type.BOOLEAN, True, _Importance.MEDIUM,
        "true: only records whose field has the value or matches the pattern are kept. false: these are dropped, and "
        "all others are kept.",
    ),
    _by_field_value,
    _value_or_pattern,
)  # fmt: skip
MakeTombstone = defined(
    "MakeTombstone",
    "Makes tombstones: the value of all records becomes null. Aiven's.",
    ConfigDef(),
    lambda _given, _schema: {"value": "NULL"},
)
TombstoneHandler = defined(
    "TombstoneHandler",
    "Drops or refuses records whose value is null. Confluent's, and Aiven's.",
    ConfigDef().define(
        "behavior", _Type.STRING, "drop_silent", _Importance.MEDIUM,
        "What happens to records whose value is null. drop_silent, drop_warn: they are dropped, without a message for "
        "each. fail: they are refused (see errors.tolerance). ignore, warn: they pass unchanged.",
        validator=one_of(("drop_silent", "drop_warn", "warn", "fail", "ignore")),
    ),
    _tombstones,
)  # fmt: skip
ByLogicalTableRouter = defined(
    "ByLogicalTableRouter",
    "Routes the events of several tables to one topic, and adds the table to their keys. Debezium's.",
    ConfigDef()
    .define(
        "topic.regex", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "A regular expression (Java's) for the whole names of the topics to reroute.", validator=java_pattern,
    )
    .define(
        "topic.replacement", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The new topic. $1 stands for the first group of topic.regex.",
    )
    .define(
        "key.enforce.uniqueness", _Type.BOOLEAN, True, _Importance.LOW,
        "Whether a key that is a struct gets a field with the original topic, so that equal keys of several tables "
        "stay different.",
    )
    .define(
        "key.field.name", _Type.STRING, "__dbz__physicalTableIdentifier", _Importance.LOW,
        "The name of the field that key.enforce.uniqueness adds.",
    )
    .define(
        "key.field.regex", _Type.STRING, None, _Importance.LOW,
        "A regular expression (Java's) for the whole original topic. If it matches, the added field contains "
        "key.field.replacement. Unset, or if it does not match: the original topic.", validator=java_pattern,
    )
    .define("key.field.replacement", _Type.STRING, None, _Importance.LOW,
        "The content of the added field. $1 stands for the first group of key.field.regex."),
    _logical,
    _replacements,
)  # fmt: skip
