"""Confluent's and Aiven's small transforms of keys, values, timestamps and topics, as rows of the table on Sql."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.config.validators import not_blank, one_of
from fencepost.transforms.sql_table import (
    Translation,
    defined,
    defined_for_parts,
    replaced_fields,
    sql_path,
    sql_text,
)

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_STRUCTURED: Final = (t.StructType, t.ArrayType, t.MapType)


def _dropped(part: str) -> Translation:
    def sql(given: Mapping[str, Any], schema: t.StructType) -> Mapping[str, str | None]:
        if given["schema.behavior"].lower() == "nullify" or isinstance(schema[part].dataType, t.NullType):
            return {part: "NULL"}
        return {part: f"CASE WHEN false THEN {part} END"}

    return sql


Drop, DropKey = defined_for_parts(
    "Drop",
    "Sets the {part} to null. Confluent's.",
    ConfigDef().define(
        "schema.behavior", _Type.STRING, "nullify", _Importance.MEDIUM,
        "What happens to the schema. nullify: it is removed. retain, force_optional, validate: it stays; with all "
        "three, null is a valid value of the schema.",
        validator=one_of(("nullify", "retain", "validate", "force_optional")),
    ),
    _dropped,
)  # fmt: skip


def _extracted_timestamp(part: str) -> Translation:
    def sql(given: Mapping[str, Any], schema: t.StructType) -> Mapping[str, str | None]:
        name, kind = given["field.name"], schema[part].dataType
        path = sql_path(part, name)
        why = f"A record has no timestamp in {part}.{name}: fill it in, or keep ExtractTimestamp from such records by a predicate"
        if isinstance(kind, t.NullType):
            return {"timestamp": f"CAST(raise_error({sql_text(why)}) AS BIGINT)"}
        found = kind[name].dataType if isinstance(kind, t.StructType) and name in kind.names else None
        if isinstance(kind, t.StructType) and not isinstance(
            found, t.LongType | t.TimestampType | t.TimestampNTZType | None
        ):
            raise DataError(
                f"ExtractTimestamp needs a BIGINT or a TIMESTAMP in {part}.{name}, but it is of type {found.simpleString()}: put "
                "TimestampConverter before it, or name another field in field.name"
            )
        if isinstance(found, t.LongType) and given.get("timestamp.resolution", "milliseconds").lower() == "seconds":
            path = f"{path} * 1000"
        return {"timestamp": f"coalesce({path}, raise_error({sql_text(why)}))"}

    return sql


def _define_timestamp() -> ConfigDef:
    return ConfigDef().define(
        "field.name", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The field with the timestamp: a TIMESTAMP, or milliseconds since 1970.", validator=not_blank,
    )  # fmt: skip


def _define_resolution() -> ConfigDef:
    return _define_timestamp().define(
        "timestamp.resolution", _Type.STRING, "milliseconds", _Importance.LOW,
        "The unit of a field that is a number: milliseconds or seconds since 1970.",
        validator=one_of(("milliseconds", "seconds")),
    )  # fmt: skip


_TIMESTAMP: Final = "Takes the record's timestamp from a field of the {part}."
ExtractTimestamp, ExtractTimestampKey = defined_for_parts(
    "ExtractTimestamp", f"{_TIMESTAMP} Confluent's.", _define_timestamp(), _extracted_timestamp
)
AivenExtractTimestamp, AivenExtractTimestampKey = defined_for_parts(
    "AivenExtractTimestamp", f"{_TIMESTAMP} Aiven's.", _define_resolution(), _extracted_timestamp
)

_CASES: Final = ("LOWER_CAMEL", "LOWER_HYPHEN", "LOWER_UNDERSCORE", "UPPER_CAMEL", "UPPER_UNDERSCORE")
_SEPARATORS: Final = {"CAMEL": "", "HYPHEN": "-", "UNDERSCORE": "_"}


def _topic_case(given: Mapping[str, Any], _: t.StructType) -> Mapping[str, str | None]:
    before, after = given["from"].upper(), given["to"].upper()
    if before == after:
        return {}
    separator = _SEPARATORS[before.partition("_")[2]]
    words = f"split(topic, {sql_text(separator or '(?=[A-Z])')})"
    case, _underscore, form = after.partition("_")
    word = f"{case.lower()}(w)"
    if form == "CAMEL":
        word = "concat(upper(left(w, 1)), lower(substring(w, 2)))"
        if case == "LOWER":
            word = f"CASE WHEN i = 0 THEN lower(w) ELSE {word} END"
    return {"topic": f"array_join(transform({words}, (w, i) -> {word}), {sql_text(_SEPARATORS[form])})"}


ChangeTopicCase = defined(
    "ChangeTopicCase",
    "Changes the letter case of the topic's name, such as LOWER_CAMEL to LOWER_HYPHEN. Confluent's.",
    ConfigDef()
    .define(
        "from", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH, f"The case of the original names: {', '.join(_CASES)}.",
        validator=one_of(_CASES),
    )
    .define(
        "to", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH, f"The case of the new names: {', '.join(_CASES)}.",
        validator=one_of(_CASES),
    ),
    _topic_case,
)  # fmt: skip


def _as_json(part: str) -> Translation:
    def sql(given: Mapping[str, Any], schema: t.StructType) -> Mapping[str, str | None]:
        kind = schema[part].dataType
        if isinstance(kind, t.NullType):
            return {}
        options = "map('ignoreNullFields', 'false', 'timeZone', 'UTC')"
        if isinstance(kind, _STRUCTURED):
            json = f"to_json({part}, {options})"
        else:
            # Spark writes only structures as JSON. So the value is put into a struct: its JSON is the text between
            # {"a": and }.
            json = f"regexp_extract(to_json(named_struct('a', {part}), {options}), r'(?s)^\\{{\"a\":(.*)\\}}$', 1)"
        if given["output.schema.type"].upper() == "BYTES":
            json = f"CAST({json} AS BINARY)"
        return {part: f"CASE WHEN {part} IS NOT NULL THEN {json} END"}

    return sql


def _without_schemas(given: Mapping[str, Any]) -> None:
    if given["schemas.enable"]:
        raise ConfigError(
            "ToJSON writes no schemas into the text: set schemas.enable=false, or let JsonConverter write them",
            name="schemas.enable",
        )


ToJSON, ToJSONKey = defined_for_parts(
    "ToJSON",
    "Converts the {part} to a JSON text. Confluent's.",
    ConfigDef()
    .define(
        "output.schema.type", _Type.STRING, "STRING", _Importance.MEDIUM,
        "The type of the resulting JSON text: STRING or BYTES.",
        validator=one_of(("STRING", "BYTES")),
    )
    .define("schemas.enable", _Type.BOOLEAN, False, _Importance.MEDIUM,
        "Only false is supported: the JSON text contains no schema."),
    _as_json,
    _without_schemas,
)  # fmt: skip

_CHARSETS: Final = ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16BE", "UTF-16LE", "UTF-16", "UTF-32")


def _decoded(part: str) -> Translation:
    def sql(given: Mapping[str, Any], schema: t.StructType) -> Mapping[str, str | None]:
        kind, fields = schema[part].dataType, [name for name in given["fields"] if name]
        if isinstance(kind, t.NullType):
            return {}
        decoded = _decoder(given["charset"].upper())
        if not isinstance(kind, t.StructType):
            _require_bytes(part, kind)
            return {part: decoded(part)}
        found = [name for name in fields if name in kind.names]
        for name in found:
            _require_bytes(f"{part}.{name}", kind[name].dataType)
        changes = {name: decoded(sql_path(part, name)) for name in found}
        return {part: replaced_fields(part, kind, changes)} if changes else {}

    return sql


def _decoder(charset: str) -> Callable[[str], str]:
    if charset == "UTF-8":
        # As in Java, bytes that are not text become a replacement character.
        return lambda path: f"make_valid_utf8(CAST({path} AS STRING))"
    return lambda path: f"decode({path}, {sql_text(charset)})"


def _require_bytes(where: str, kind: t.DataType) -> None:
    if not isinstance(kind, t.BinaryType):
        raise DataError(
            f"BytesToString needs bytes in {where}, but it is of type {kind.simpleString()}: list fields that are bytes in "
            "fields"
        )


BytesToString, BytesToStringKey = defined_for_parts(
    "BytesToString",
    "Converts bytes to strings: the {part}, or fields of it. Confluent's.",
    ConfigDef()
    .define(
        "charset", _Type.STRING, "UTF-8", _Importance.HIGH, f"The encoding of the bytes: {', '.join(_CHARSETS)}.",
        validator=one_of(_CHARSETS),
    )
    .define(
        "fields", _Type.LIST, "", _Importance.HIGH,
        "The fields of a struct that are converted; missing fields are ignored. Leave it empty if the whole key or "
        "value is bytes.",
    ),
    _decoded,
)  # fmt: skip
