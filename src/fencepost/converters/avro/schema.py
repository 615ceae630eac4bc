"""Avro schemas of Connect's schemas, as Confluent's AvroData makes them.

| Connect | Avro |
|---|---|
| int8 int16 int32 int64 | int with connect.type, int, long |
| float double boolean string bytes | float double boolean string bytes |
| Decimal | bytes, decimal with precision 64, or with connect.decimal.precision |
| Date Time Timestamp | int date, int time-millis, long timestamp-millis |
| array, map with keys of string | array, map |
| map with other keys | array of records MapEntry |
| struct | record; without a name ConnectDefault, ConnectDefault2 ... in the order of visit |
| optional | ["null", T]; with a default [T, "null"] |
| no schema | record Anything |

Name, version, doc, parameters and default of a schema become properties `connect.*`. Connect's schemas are given in the
JSON form of JsonConverter. Avro's schemas are JSON objects with full names. Pure: this module has no side effects.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fencepost.api.errors import DataError
from fencepost.converters.registry.schema_names import scrubbed_part

Connect = Mapping[str, Any]
Avro = Any
"""The JSON of an Avro schema, where each named type has its full name."""

NAMESPACE: Final = "io.confluent.connect.avro"
MAP_ENTRY: Final = "MapEntry"
ANYTHING: Final = f"{NAMESPACE}.Anything"
ANYTHING_FIELDS: Final = ("boolean", "bytes", "double", "float", "int", "long", "string", "array", "map")
_ENUM: Final = f"{NAMESPACE}.Enum"
_DEFAULT: Final = f"{NAMESPACE}.ConnectDefault"
_LOGICAL: Final = "org.apache.kafka.connect.data."
DECIMAL: Final = f"{_LOGICAL}Decimal"
_PRECISION: Final = "connect.decimal.precision"
_FIXED: Final = "connect.fixed.size"

_PRIMITIVES: Final = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
    "boolean": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip
_LOGICAL_TYPES: Final = {
    f"{_LOGICAL}Date": ("int32", "date"),
    f"{_LOGICAL}Time": ("int32", "time-millis"),
    f"{_LOGICAL}Timestamp": ("int64", "timestamp-millis"),
}
_NAMED: Final = frozenset({"record", "enum", "fixed", "error"})
_CONTROL: Final = re.compile(r"\\(?:u00[0-9a-f]{2}|.)")


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """The settings of AvroData that concern writing."""

    metadata: bool = True
    enhanced: bool = False
    optional_map_keys: bool = False
    scrub: bool = False
    raw_bytes: bool = True
    """Whether a whole value that is bytes is written without its length."""


def avro_schema(schema: Connect | None, options: AvroOptions = AvroOptions()) -> Avro:
    """Return the Avro schema of a Connect schema (None: data without one).

    Raises DataError that names the invalid part.
    """
    return _Schemas(options).of(schema, "the record") if schema is not None else anything()


def anything() -> Avro:
    """Return the Avro schema for data without a schema: a record with nine fields, of which one is set."""
    entry = {
        "type": "record", "name": f"{NAMESPACE}.{MAP_ENTRY}",
        "fields": [{"name": "key", "type": ANYTHING}, {"name": "value", "type": ANYTHING}],
    }  # fmt: skip
    types: dict[str, Avro] = {name: name for name in ANYTHING_FIELDS} | {
        "array": {"type": "array", "items": ANYTHING},
        "map": {"type": "array", "items": entry},
    }
    fields = [{"name": name, "type": ["null", types[name]], "default": None} for name in ANYTHING_FIELDS]
    return {"type": "record", "name": ANYTHING, "fields": fields}


def schema_text(schema: Avro) -> str:
    """Return a schema as text, as Java writes it: without blanks, and names relative to the enclosing namespace."""
    text = json.dumps(_shortened(schema, None), ensure_ascii=False, separators=(",", ":"))
    # Java writes the hexadecimal digits of control characters in capitals.
    return _CONTROL.sub(lambda found: found[0][:2] + found[0][2:].upper() if found[0][1] == "u" else found[0], text)


def parsed_schema(text: str) -> Avro:
    """Parse a schema, with full names. Raises ValueError for invalid text."""
    return _full(json.loads(text), None)


def named_types(schema: Avro) -> dict[str, Avro]:
    """The named types that a schema defines, by full name."""
    found: dict[str, Avro] = {}
    for part in _walk(schema):
        if isinstance(part, dict) and part["type"] in _NAMED:
            found.setdefault(part["name"], part)
    return found


def canonical_form(schema: Avro) -> Avro:  # noqa: PLR0911 - one case for each type
    """Return the parts of a schema that decide how its bytes are read: Avro's Parsing Canonical Form, as JSON."""
    if isinstance(schema, list):
        return [canonical_form(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    match schema["type"]:
        case "record" | "error":
            fields = [[part["name"], canonical_form(part["type"])] for part in schema["fields"]]
            return ["record", schema["name"], fields]
        case "array":
            return ["array", canonical_form(schema["items"])]
        case "map":
            return ["map", canonical_form(schema["values"])]
        case "enum":
            return ["enum", schema["name"], list(schema["symbols"])]
        case "fixed":
            return ["fixed", schema["name"], schema["size"]]
    return canonical_form(schema["type"])


def scrubbed(name: str) -> str:
    """Return a name in which only characters remain that Avro allows: the others are URL-encoded, or become `_`."""
    return ".".join(scrubbed_part(part) for part in name.split("."))


def avro_name(name: str, options: AvroOptions) -> str:
    """Return the name of a field in Avro. Raises DataError for a name that Avro does not allow."""
    if options.scrub:
        return scrubbed_part(name.replace(".", "_"))
    _check_name(name)
    return name


def _check_name(name: str) -> None:
    if not name or not (name[0].isalpha() or name[0] == "_") or not name.replace("_", "a").isalnum():
        raise DataError(
            f"Avro does not allow the name {name!r}: rename the column, or set scrub.invalid.names=true, which replaces "
            "characters"
        )


@dataclass
class _Schemas:
    """Makes the Avro schemas of one record. A struct that occurs again becomes a reference to the first one."""

    options: AvroOptions
    records: dict[str, str] = field(default_factory=dict)
    """The names of the structs so far, by the structs' content."""
    contents: dict[str, str] = field(default_factory=dict)
    """The contents of the structs so far, by the structs' names."""
    unnamed: int = 0

    def of(self, schema: Connect, place: str) -> Avro:
        base = self._base(schema, place)
        if not schema.get("optional"):
            return base
        has_default = schema.get("default") is not None and schema["type"] != "struct"
        return [base, "null"] if has_default else ["null", base]

    def _base(self, schema: Connect, place: str) -> Avro:
        kind = schema["type"]
        if kind == "struct":
            return self._struct(schema, place)
        if kind == "array":
            return self._with_properties({"type": "array", "items": self.of(schema["items"], f"{place}[]")}, schema)
        if kind == "map":
            return self._with_properties(self._map(schema, place), schema)
        return self._scalar(schema, place)

    def _scalar(self, schema: Connect, place: str) -> Avro:
        parameters = schema.get("parameters") or {}
        if self.options.enhanced and schema["type"] == "string" and _ENUM in parameters:
            prefix = f"{_ENUM}."
            symbols = [name.removeprefix(prefix) for name in parameters if name.startswith(prefix)]
            return self._with_properties({"type": "enum", "name": parameters[_ENUM], "symbols": symbols}, schema)
        if schema["type"] not in _PRIMITIVES:
            raise DataError(f"Avro has no form for the type {schema['type']} of {place}")
        described: dict[str, Any] = {"type": _PRIMITIVES[schema["type"]]}
        if schema.get("name") == DECIMAL:
            if _FIXED in parameters:
                raise DataError(f"The parameter {_FIXED} of {place} is not supported: write the decimal as bytes")
            described |= {"scale": int(parameters["scale"]), "precision": int(parameters.get(_PRECISION, 64))}
        described = self._with_properties(described, schema)
        if schema["type"] in ("int8", "int16") and self.options.metadata:
            described["connect.type"] = schema["type"]
        if schema.get("name") == DECIMAL:
            described["logicalType"] = "decimal"
        kind, logical = _LOGICAL_TYPES.get(str(schema.get("name")), ("", ""))
        if kind == schema["type"]:
            described["logicalType"] = logical
        return described if len(described) > 1 else described["type"]

    def _map(self, schema: Connect, place: str) -> dict[str, Any]:
        keys, values = schema["keys"], schema["values"]
        if keys["type"] == "string" and (self.options.optional_map_keys or not keys.get("optional")):
            return {"type": "map", "values": self.of(values, f"{place}[value]")}
        name = schema.get("name")
        full = self._record_name(name, place) if name else f"{NAMESPACE}.{MAP_ENTRY}"
        return {"type": "array", "items": self._entry(schema, full, named=bool(name), place=place)}

    def _entry(self, schema: Connect, full: str, *, named: bool, place: str) -> Avro:
        content = _content({"keys": schema["keys"], "values": schema["values"]})
        if self._seen(full, content, place):
            return full
        fields = [self._field("key", schema["keys"], place), self._field("value", schema["values"], place)]
        entry: dict[str, Any] = {"type": "record", "name": full, "fields": fields}
        return entry | {"connect.internal.type": MAP_ENTRY} if named else entry

    def _struct(self, schema: Connect, place: str) -> Avro:
        content = _content(schema)
        if content in self.records:
            return self.records[content]
        name = schema.get("name")
        if name:
            full = self._record_name(name, place)
        else:
            self.unnamed += 1
            full = _DEFAULT if self.unnamed == 1 else f"{_DEFAULT}{self.unnamed}"
        if self._seen(full, content, place):
            return full
        self.records[content] = full
        fields = [self._field(str(part["field"]), part, place) for part in schema["fields"]]
        return self._with_properties({"type": "record", "name": full, "fields": fields}, schema)

    def _seen(self, full: str, content: str, place: str) -> bool:
        """Whether a record with this name was seen before. Raises DataError if its content was different."""
        known = self.contents.setdefault(full, content)
        if known is not content and known != content:
            raise DataError(
                f"Two types of {place} would have the name {full} in Avro, which allows it once: set "
                "fencepost.schema.names=topic, which names each after its place, or give them different names"
            )
        return known is not content

    def _record_name(self, name: str, place: str) -> str:
        full = scrubbed(name) if self.options.scrub else name
        try:
            _check_name(full.rpartition(".")[2])
        except DataError as error:
            raise DataError(f"The schema of {place}: {error}") from error
        return full

    def _field(self, name: str, schema: Connect, place: str) -> dict[str, Any]:
        described: dict[str, Any] = {
            "name": avro_name(name, self.options),
            "type": self.of(schema, name if place == "the record" else f"{place}.{name}"),
        }
        default = schema.get("default")
        if default is not None and schema["type"] != "struct":
            described["default"] = default_of(schema, default)
        elif schema.get("optional"):
            described["default"] = None
        return described

    def _with_properties(self, described: dict[str, Any], schema: Connect) -> dict[str, Any]:
        if not self.options.metadata:
            return described
        parameters = schema.get("parameters") or {}
        found = {
            "connect.doc": schema.get("doc"),
            "connect.version": schema.get("version"),
            "connect.parameters": dict(parameters) or None,
            "connect.default": None if schema.get("default") is None else default_of(schema, schema["default"]),
            "connect.name": schema.get("name"),
        } | {name: text for name, text in parameters.items() if name.startswith("avro.")}
        return described | {name: value for name, value in found.items() if value is not None}


def default_of(schema: Connect, value: Any) -> Any:
    """Return a default in the form that Avro's JSON has: bytes are a text in ISO-8859-1."""
    match schema["type"]:
        case "bytes":
            return base64.b64decode(value).decode("latin-1")
        case "array":
            return [default_of(schema["items"], item) for item in value]
        case "map" if isinstance(value, Mapping):
            return {name: default_of(schema["values"], item) for name, item in value.items()}
        case "struct":
            return {part["field"]: default_of(part, value[part["field"]]) for part in schema["fields"]}
    return value


def _content(schema: Connect) -> str:
    """The identity of a struct: everything except its nullability, its default and the name of its field."""
    return json.dumps({name: part for name, part in schema.items() if name not in ("optional", "default", "field")})


def _shortened(schema: Avro, namespace: str | None) -> Avro:
    if isinstance(schema, list):
        return [_shortened(branch, namespace) for branch in schema]
    if isinstance(schema, str):
        around, _, simple = schema.rpartition(".")
        return simple if around and around == namespace else schema
    kind, rest = schema["type"], {name: part for name, part in schema.items() if name not in ("type", "name")}
    if kind in _NAMED:
        own, _, simple = schema["name"].rpartition(".")
        named = {"type": kind, "name": simple} | ({"namespace": own} if own != (namespace or "") else {})
        if "fields" in rest:
            rest["fields"] = [part | {"type": _shortened(part["type"], own or None)} for part in rest["fields"]]
        return named | rest
    inner = {name: _shortened(rest[name], namespace) for name in ("items", "values") if name in rest}
    return {"type": kind if isinstance(kind, str) else _shortened(kind, namespace)} | rest | inner


_PRIMITIVE_NAMES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def _full(schema: Any, namespace: str | None) -> Avro:
    if isinstance(schema, list):
        return [_full(branch, namespace) for branch in schema]
    if isinstance(schema, str):
        return schema if schema in _PRIMITIVE_NAMES else _full_name(schema, namespace)
    if not isinstance(schema, dict) or "type" not in schema:
        raise ValueError(f"{json.dumps(schema)[:100]} is not a schema of Avro")
    kind, found = schema["type"], dict(schema)
    if kind in _NAMED:
        own = found.pop("namespace", None)
        found["name"] = _full_name(found["name"], namespace if own is None else own or None)
        if "fields" in found:
            inner = found["name"].rpartition(".")[0] or None
            found["fields"] = [part | {"type": _full(part["type"], inner)} for part in found["fields"]]
        return found
    if not isinstance(kind, str):
        return _full(kind, namespace)
    if kind not in (*_PRIMITIVE_NAMES, "array", "map"):
        return _full_name(kind, namespace)
    return found | {name: _full(found[name], namespace) for name in ("items", "values") if name in found}


def _full_name(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _walk(schema: Avro) -> Iterator[Avro]:
    yield schema
    if isinstance(schema, list):
        for branch in schema:
            yield from _walk(branch)
    elif isinstance(schema, dict):
        for part in schema.get("fields", ()):
            yield from _walk(part["type"])
        for name in ("items", "values"):
            if name in schema:
                yield from _walk(schema[name])
