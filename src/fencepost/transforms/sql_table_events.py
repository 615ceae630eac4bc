"""Debezium's small transforms of change events, headers and partitions, as rows of the table on Sql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.config.validators import at_least, not_empty, one_of
from fencepost.transforms.change_event import ChangeEvent
from fencepost.transforms.field_paths import field_at
from fencepost.transforms.murmur import murmur_of
from fencepost.transforms.sql_table import defined, sql_path, sql_text

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_WORD: Final = 4294967295
"""A mask for the 32 bits of Java's int."""


def _routed_partition(given: Mapping[str, Any], schema: t.StructType) -> Mapping[str, str | None]:
    """Return the partition by Java's rule.

    The hashes of the fields are added as int. The partition is the sum without its sign bit, modulo the number of
    partitions. The highest int counts as 0.
    """
    kind = schema["value"].dataType
    event = ChangeEvent.of(kind)
    if event is None:
        return {}
    contents = [found for name in given["partition.payload.fields"] if (found := _content(kind, name)) is not None]
    if not contents:
        return {}
    hash_of = _murmur_hash if given["partition.hash.function"].lower() == "murmur" else _java_hash
    hashes = " + ".join(f"coalesce({hash_of(path, of, name)}, 0)" for name, path, of in contents)
    any_there = " OR ".join(f"{path} IS NOT NULL" for _, path, _ in contents)
    partition = f"CAST((({hashes}) & 2147483647) % 2147483647 % {given['partition.topic.num']} AS INT)"
    changes = "value.op IS NULL OR value.op NOT IN ('t', 'm')"
    return {"partition": f"CASE WHEN ({changes}) AND ({any_there}) THEN {partition} ELSE partition END"}


def _content(kind: t.DataType, name: str) -> tuple[str, str, t.DataType] | None:
    """Return the name, the expression and the type of a field of events; None if events lack the field."""
    parts = [part.strip() for part in name.split(".")]
    if parts[0] != "change":
        found = field_at(kind, tuple(parts))
        return None if found is None else (name, sql_path("value", *parts), found.dataType)
    sides = {side: field_at(kind, (side, *parts[1:])) for side in ("before", "after")}
    known = next((field for field in sides.values() if field is not None), None)
    if known is None or len(parts) == 1:
        return None
    before, after = ("NULL" if field is None else sql_path("value", side, *parts[1:]) for side, field in sides.items())
    return name, f"(CASE WHEN value.op = 'd' THEN {before} ELSE {after} END)", known.dataType


def _java_hash(path: str, kind: t.DataType, name: str) -> str:
    """Return Java's hashCode() of a value as a BIGINT. Only its lowest 32 bits count."""
    match kind:
        case t.ByteType() | t.ShortType() | t.IntegerType():
            return f"CAST({path} AS BIGINT)"
        case t.LongType():
            return f"(({path} ^ shiftrightunsigned({path}, 32)) & {_WORD})"
        case t.BooleanType():
            return f"CAST(CASE {path} WHEN true THEN 1231 WHEN false THEN 1237 END AS BIGINT)"
        case t.StringType():
            units = f"regexp_extract_all(hex(encode({path}, 'UTF-16BE')), '.{{4}}', 0)"
            step = f"(31 * h + CAST(conv(c, 16, 10) AS BIGINT)) & {_WORD}"
            return f"aggregate({units}, CAST(0 AS BIGINT), (h, c) -> {step})"
        case t.NullType():
            return "CAST(NULL AS BIGINT)"
    raise DataError(
        f"PartitionRouting cannot hash {name}, which is of type {kind.simpleString()}: list fields that are texts, whole "
        "numbers or BOOLEAN in partition.payload.fields"
    )


def _murmur_hash(path: str, kind: t.DataType, name: str) -> str:
    """Return the MurmurHash3 of a text in UTF-8.

    For other values, return the hash of the four bytes of hashCode(), lowest byte first.
    """
    if isinstance(kind, t.StringType):
        return murmur_of(f"hex({path})")
    code = f"lpad(hex({_java_hash(path, kind, name)} & {_WORD}), 8, '0')"
    return murmur_of(f"regexp_replace({code}, '(..)(..)(..)(..)', '$4$3$2$1')")


PartitionRouting = defined(
    "PartitionRouting",
    "Chooses the partition of change events by their fields. Debezium's.",
    ConfigDef()
    .define(
        "partition.payload.fields", _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The fields whose values choose the partition, as paths such as source.table or change.id; change stands for "
        "the row after the change, or before a delete. Fields that are null or missing are ignored. If all of them "
        "are, the event keeps its partition.",
        validator=not_empty,
    )
    .define(
        "partition.topic.num", _Type.INT, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The number of partitions of the topic.",
        validator=at_least(1),
    )
    .define(
        "partition.hash.function", _Type.STRING, "java", _Importance.LOW,
        "The hash function: java (hashCode() of Java) or murmur (MurmurHash3).",
        validator=one_of(("java", "murmur")),
    ),
    _routed_partition,
)  # fmt: skip


def _changed_names(given: Mapping[str, Any], schema: t.StructType) -> Mapping[str, str | None]:
    event = ChangeEvent.of(schema["value"].dataType)
    if event is None or len(event.sides) < 2:
        return {}
    added = []
    for name, word in ((given["header.changed.name"], "NOT "), (given["header.unchanged.name"], "")):
        if name:
            listed = (f"CASE WHEN {word}{same} THEN {sql_text(field)} END" for field, same in _equalities(event))
            added.append((name, f"to_json(array_compact(array({', '.join(listed)})))"))
    if not added:
        return {}
    headers = _with_headers(added, schema["headers"].dataType)
    return {
        "headers": f"CASE WHEN value.before IS NOT NULL AND value.after IS NOT NULL THEN {headers} ELSE headers END"
    }


def _equalities(event: ChangeEvent) -> Sequence[tuple[str, str]]:
    """Return the columns of the row after the event, each with an expression that is true if it did not change."""
    found = []
    for field in event.sides["after"].fields:
        after = sql_path("value", "after", field.name)
        before = sql_path("value", "before", field.name) if field.name in event.sides["before"].names else "NULL"
        if _holds_map(field.dataType):
            # Spark cannot compare maps, so their JSON is compared.
            after, before = (f"to_json(named_struct('a', {side}))" for side in (after, before))
        found.append((field.name, f"({after} <=> {before})"))
    return found


def _holds_map(kind: t.DataType) -> bool:
    if isinstance(kind, t.StructType):
        return any(_holds_map(field.dataType) for field in kind.fields)
    return isinstance(kind, t.MapType) or (isinstance(kind, t.ArrayType) and _holds_map(kind.elementType))


def _with_headers(added: Sequence[tuple[str, str]], kind: t.DataType) -> str:
    """Return an expression for the record's headers, followed by the added headers.

    The added values have the type that the source declares for header values. If the source declares no type, or bytes,
    they are texts.
    """
    pair = kind.elementType if isinstance(kind, t.ArrayType) else None
    declared = pair["value"].dataType if isinstance(pair, t.StructType) else t.StringType()
    value = "string" if isinstance(declared, t.BinaryType) else declared.simpleString()
    pairs = (f"named_struct('key', {sql_text(key)}, 'value', CAST({text} AS {value}))" for key, text in added)
    return f"concat(headers, array({', '.join(pairs)}))"


ExtractChangedRecordState = defined(
    "ExtractChangedRecordState",
    "Lists the columns that an update changed, and those that it did not, in headers. Debezium's.",
    ConfigDef()
    .define(
        "header.changed.name", _Type.STRING, None, _Importance.LOW,
        "The name of the header that lists the changed columns, as JSON. Unset: no such header.",
    )
    .define(
        "header.unchanged.name", _Type.STRING, None, _Importance.LOW,
        "The name of the header that lists the unchanged columns, as JSON. Unset: no such header.",
    ),
    _changed_names,
)  # fmt: skip


def _from_headers(given: Mapping[str, Any], schema: t.StructType) -> Mapping[str, str | None]:
    kind = schema["value"].dataType
    if isinstance(kind, t.NullType):
        return {}
    if not isinstance(kind, t.StructType):
        raise DataError(
            f"HeaderToValue needs a value that is a struct, but it is of type {kind.simpleString()}: put HoistField before it"
        )
    contents = {}
    for header, field in zip(given["headers"], given["fields"], strict=True):
        contents[tuple(field.split("."))] = (
            f"try_element_at(filter(headers, h -> h.key = {sql_text(header)}), -1).value"
        )
    columns: dict[str, str | None] = {"value": _extended(("value",), kind, contents)}
    if given["operation"].lower() == "move":
        moved = ", ".join(sql_text(header) for header in given["headers"])
        columns["headers"] = (
            f"CASE WHEN value IS NOT NULL THEN filter(headers, h -> h.key NOT IN ({moved})) ELSE headers END"
        )
    return columns


def _extended(path: tuple[str, ...], kind: t.DataType, contents: Mapping[tuple[str, ...], str]) -> str:
    """Return the struct at a path with fields added. If a struct within it is null, it stays null."""
    where = ".".join(path)
    if not isinstance(kind, t.StructType):
        raise DataError(
            f"HeaderToValue needs a struct in {where}, but it is of type {kind.simpleString()}: correct the property fields"
        )
    within = {name for name, *more in contents if more}
    if missing := sorted(within - set(kind.names)):
        raise DataError(f"HeaderToValue needs the struct {where}.{missing[0]}, which is not there: correct fields")
    if there := sorted({name for name, *more in contents if not more} & set(kind.names)):
        raise DataError(
            f"HeaderToValue is to add {where}.{there[0]}, which is there already: name another field, or remove it before"
        )
    fields = {}
    for field in kind.fields:
        deeper = {names[1:]: sql for names, sql in contents.items() if names[0] == field.name}
        fields[field.name] = (
            _extended((*path, field.name), field.dataType, deeper) if deeper else sql_path(*path, field.name)
        )
    fields |= {names[0]: sql for names, sql in contents.items() if len(names) == 1}
    struct = ", ".join(f"{sql_text(name)}, {sql}" for name, sql in fields.items())
    return f"CASE WHEN {sql_path(*path)} IS NOT NULL THEN named_struct({struct}) END"


def _as_many_fields(given: Mapping[str, Any]) -> None:
    if len(given["fields"]) != len(given["headers"]):
        raise ConfigError("fields and headers must be lists of the same length", name="headers")
    if len(set(given["fields"])) != len(given["fields"]):
        raise ConfigError("fields names a field twice: give each header a field of its own", name="fields")


HeaderToValue = defined(
    "HeaderToValue",
    "Moves or copies headers to fields of the value. Debezium's.",
    ConfigDef()
    .define("headers", _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The names of the headers to move or copy, comma-separated.", validator=not_empty)
    .define(
        "fields", _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The names of the new fields, in the order of headers; after.name is a field within the struct after. If a "
        "record lacks a header, its field is null, because the records of a batch share their schema.",
        validator=not_empty,
    )
    .define(
        "operation", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "move: the headers are removed from the record. copy: they stay.", validator=one_of(("move", "copy")),
    ),
    _from_headers,
    _as_many_fields,
)  # fmt: skip
