"""Finds how values of a Connect schema are written with an Avro schema: their own, or another one from the registry.

Fields are matched by name, never by position. The Avro schema may differ: it may have additional fields with defaults,
wider numbers, and optional fields where the Connect schema has required ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.errors import DataError
from fencepost.converters.avro.anything import AnythingStep
from fencepost.converters.avro.datum import default_bytes
from fencepost.converters.avro.schema import (
    ANYTHING,
    DECIMAL,
    MAP_ENTRY,
    Avro,
    AvroOptions,
    Connect,
    avro_name,
    named_types,
)
from fencepost.converters.avro.steps import (
    ANY_DIGITS,
    ArrayStep,
    AvroStep,
    BytesStep,
    ConstantStep,
    EnumStep,
    FixedStep,
    MapStep,
    RealStep,
    RecordStep,
    RequiredStep,
    TextStep,
    TruthStep,
    UnionStep,
    WholeStep,
)

_UNITS: Final = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_WHOLE: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_REAL: Final = {"float": 4, "double": 8}


def plan(
    schema: Connect | None, written: Avro, options: AvroOptions, referred: Iterable[Avro] = (), *, strict: bool
) -> AvroStep:
    """Return the step that writes values with the Avro schema `written`.

    `schema` is the Connect schema of the values, or None if they have none. Raises DataError if the schemas do not fit.

    `referred` are schemas whose named types `written` may use. If `strict`, `written` must have all fields of the
    values; else fields that it lacks are not written.
    """
    named = {name: kind for part in (*referred, written) for name, kind in named_types(part).items()}
    finder = _Finder(named, options, strict=strict)
    if schema is None:
        if not (isinstance(written, dict) and written.get("name") == ANYTHING):
            raise DataError(f"The records have no schema, and are written as {ANYTHING} only: give them a schema")
        return AnythingStep()
    if options.raw_bytes and _kind(written) == "bytes" and schema["type"] == "bytes":
        # The whole value is bytes, so their length is not needed.
        details = written if isinstance(written, dict) else {}
        return BytesStep(decimal=schema.get("name") == DECIMAL, raw=True, digits=_digits(details))
    return finder.of(schema, written, "")


@dataclass(frozen=True)
class _Finder:
    named: Mapping[str, Avro]
    options: AvroOptions
    strict: bool

    def of(self, schema: Connect, written: Avro, place: str) -> AvroStep:
        if isinstance(written, str) and written in self.named:
            written = self.named[written]
        if isinstance(written, list):
            return self._union(schema, written, place)
        found = self._plain(schema, written, place)
        return RequiredStep(found)

    def _union(self, schema: Connect, branches: list[Avro], place: str) -> AvroStep:
        null_branch = branches.index("null") if "null" in branches else None
        reasons = []
        for position, branch in enumerate(branches):
            if branch == "null":
                continue
            try:
                found = self._plain(
                    schema, self.named.get(branch, branch) if isinstance(branch, str) else branch, place
                )
            except DataError as error:
                reasons.append(error)
            else:
                return UnionStep(position, null_branch, found)
        raise reasons[0] if len(reasons) == 1 else _misfit(schema, branches, place)

    def _plain(self, schema: Connect, written: Avro, place: str) -> AvroStep:
        match schema["type"], _kind(written):
            case "struct", "record":
                return self._record(schema, written, place)
            case "array", "array":
                return ArrayStep(self.of(schema["items"], written["items"], f"{place}[]"))
            case "map", "map":
                keys = self._plain(schema["keys"], "string", f"{place}[key]")
                return MapStep(RequiredStep(keys), self.of(schema["values"], written["values"], f"{place}[value]"))
            case "map", "array":
                return self._entries(schema, written, place)
        return _scalar(schema, written, place)

    def _entries(self, schema: Connect, written: Avro, place: str) -> AvroStep:
        entry = written["items"]
        entry = self.named.get(entry, entry) if isinstance(entry, str) else entry
        fields = {part["name"]: part["type"] for part in entry.get("fields", ())} if isinstance(entry, dict) else {}
        if list(fields) != ["key", "value"]:
            raise DataError(f"The schema has an array for the map {place or 'value'}, but not one of {MAP_ENTRY}")
        return MapStep(
            self.of(schema["keys"], fields["key"], f"{place}[key]"),
            self.of(schema["values"], fields["value"], f"{place}[value]"),
        )

    def _record(self, schema: Connect, written: Avro, place: str) -> AvroStep:
        given = {avro_name(str(part["field"]), self.options): part for part in schema["fields"]}
        if len(given) < len(schema["fields"]):
            raise DataError(f"Two fields of {place or 'the record'} have one name in Avro: rename one of them")
        fields: list[tuple[str | None, AvroStep]] = []
        for part in written["fields"]:
            name = part["name"]
            inner = f"{place}.{name}" if place else name
            found = given.pop(name, None)
            if found is not None:
                fields.append((str(found["field"]), self.of(found, part["type"], inner)))
            elif "default" in part:
                fields.append((None, ConstantStep(self._default(part, inner))))
            else:
                raise DataError(f"The schema has the field {inner} without a default, and the records do not have it")
        if given and self.strict:
            raise DataError(
                f"The schema lacks {', '.join(given)}, which the records have: register a newer version, or set "
                "latest.compatibility.strict=false (id.compatibility.strict=false for use.schema.id) to drop such fields"
            )
        return RecordStep(tuple(fields))

    def _default(self, part: Mapping[str, Any], place: str) -> bytes:
        try:
            return default_bytes(part["type"], part["default"], self.named)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise DataError(f"The default of the field {place} in the schema does not fit its type") from error


def _scalar(schema: Connect, written: Avro, place: str) -> AvroStep:  # noqa: PLR0911 - one case for each pair of types
    kind, given = _kind(written), schema["type"]
    details = written if isinstance(written, dict) else {}
    decimal = schema.get("name") == DECIMAL
    match given, kind:
        case ("int8" | "int16" | "int32", "int" | "long") | ("int64", "long"):
            return WholeStep(_per_second(schema, details))
        case ("int8" | "int16", "float") | ("int8" | "int16" | "int32", "double"):
            return RealStep(_REAL[kind])
        case ("float", "float" | "double") | ("double", "double"):
            return RealStep(_REAL[kind])
        case "boolean", "boolean":
            return TruthStep()
        case "string", "string":
            return TextStep()
        case "string", "enum":
            return EnumStep(tuple(details["symbols"]))
        case "bytes", "bytes":
            _check_scale(schema, details, place)
            return BytesStep(decimal=decimal, digits=_digits(details))
        case "bytes", "fixed":
            _check_scale(schema, details, place)
            return FixedStep(details["size"], decimal=decimal, digits=_digits(details))
    raise _misfit(schema, written, place)


def _digits(written: Mapping[str, Any]) -> int:
    precision = written.get("precision")
    return precision if written.get("logicalType") == "decimal" and isinstance(precision, int) else ANY_DIGITS


def _check_scale(schema: Connect, written: Mapping[str, Any], place: str) -> None:
    """Refuse an Avro schema with another scale: readers would put the decimal point in the wrong place."""
    if schema.get("name") == DECIMAL and int(schema["parameters"]["scale"]) != int(written.get("scale", 0)):
        raise DataError(
            f"{place or 'The value'} is a decimal of scale {schema['parameters']['scale']}, and the schema has one of scale "
            f"{written.get('scale', 0)}: cast it"
        )


def _per_second(schema: Connect, written: Mapping[str, Any]) -> int:
    """Return the units per second in which times are written: by the Avro logical type, else milliseconds.

    0 means that the value is not a time.
    """
    if str(schema.get("name", "")).rpartition(".")[0] != "org.apache.kafka.connect.data":
        return 0
    unit = str(written.get("logicalType", "")).rpartition("-")[2]
    return _UNITS.get(unit, _UNITS["millis"])


def _kind(written: Avro) -> str:
    if isinstance(written, list):
        return "union"
    return written if isinstance(written, str) else str(written["type"])


def _misfit(schema: Connect, written: Avro, place: str) -> DataError:
    shown = " or ".join(map(_kind, written)) if isinstance(written, list) else _kind(written)
    return DataError(f"{place or 'The value'} is {schema['type']}, and the schema has {shown} for it: cast it")
