"""Confluent's JsonSchemaConverter: writes the id of a JSON Schema in a registry, and then JSON, from Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.config.validators import one_of
from fencepost.converters.json_schema import missing_values
from fencepost.converters.json_text import JsonRenderer
from fencepost.converters.jsonschema.schema import (
    JsonSchemaOptions,
    check_kind,
    json_schema,
    missing_properties,
    schema_text,
)
from fencepost.converters.registry.base import Derived, Plan, RegistryConverter
from fencepost.converters.registry.config import SCHEMA_NAMES
from fencepost.converters.registry.registry import CONTENT
from fencepost.converters.registry.schema_names import schema_in_topic
from fencepost.converters.registry.schemas import RegistrySchema
from fencepost.converters.render import children, plain
from fencepost.converters.text import ESCAPED, Text, join_columns, wrap_bytes

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class _Renderer(JsonRenderer):
    """Writes JSON like JsonConverter, except for maps whose keys are not strings: these are arrays of objects."""

    def map(self, keys: Text, values: Text, *, string_keys: bool) -> tuple[pa.Array, tuple[str, str, str]]:
        if string_keys:
            return super().map(keys, values, string_keys=True)
        return join_columns(['{"key":', keys, ',"value":', values, "}"]), ("[", ",", "]")

    def framed(self, values: pa.Array, prefix: bytes) -> pa.Array:
        """Return the texts of a column as `binary`, each after a prefix; nulls stay null."""
        if pa.types.is_struct(values.type) and values.type.num_fields and not values.null_count:
            # The prefix is joined together with the fields: adding it to complete texts would copy these once more.
            pieces = [prefix.decode(errors=ESCAPED), *self._object(values, "")]
            if not all(isinstance(piece, str) for piece in pieces):
                return join_columns(pieces).view(pa.binary())
        text = self.render(values)
        return wrap_bytes(text.body, prefix + text.prefix.encode(), text.suffix.encode()).view(pa.binary())


class JsonSchemaConverter(RegistryConverter):
    """Writes JSON with the id of its JSON Schema, as Java's converter of this name does.

    A null without a schema stays a null key or value. A null that has a schema is data, as in JsonConverter: JSON's
    null.
    """

    language: ClassVar[str] = "JSON"

    def config(self) -> ConfigDef:
        """Return the definitions of the registry's and JsonSchemaData's properties."""
        boolean, low = ConfigDef.Type.BOOLEAN, ConfigDef.Importance.LOW
        return (
            super().config()
            .define("decimal.format", ConfigDef.Type.STRING, "BASE64", low,
                    "How decimals are written. BASE64: the bytes of the unscaled value, as Base64. NUMERIC: as "
                    "numbers.",
                    validator=one_of(("base64", "numeric")))
            .define("object.additional.properties", boolean, True, low,
                    "Whether the schemas of structs allow additional properties.")
            .define("json.fail.invalid.schema", boolean, False, low,
                    "Only false is supported: values are written by their schema, and not validated against it again.",
                    validator=_only_false)
        )  # fmt: skip

    def derive(self, topic: str, schema: DataType | None) -> Derived:
        """Return the JSON Schema of a Spark type."""
        connect = schema_in_topic(schema, topic, self.role, self.settings[SCHEMA_NAMES])
        found = json_schema(connect, self._options)
        kind = "any" if connect is None else connect["type"]
        return Derived(RegistrySchema(schema_text(found), self.language), found.get("title"), kind, (schema, connect))

    def plan(
        self, derived: Derived, written: RegistrySchema, referred: Mapping[str, RegistrySchema], *, strict: bool
    ) -> Plan:
        """Check that the registry's schema fits the values. All fields are written, even fields that the schema lacks.

        The `referred` schemas are not checked.
        """
        del referred
        spark_type, connect = derived.connect
        try:
            parsed = json.loads(written.text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"The registry's schema is not JSON: {error}") from error
        if written.text != derived.schema.text:
            check_kind(connect, parsed, self._options)
            if strict and (missing := list(missing_properties(connect, parsed))):
                raise DataError(f"it has no property for {', '.join(missing)}")
        return Plan(spark_type)

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return framed JSON; a null that has a schema is JSON's null. Raises the errors of the base class."""
        if self._has_no_schema(schema) or not values.null_count:
            return super().from_connect_data(topic, schema, values)
        null = pa.scalar(self._decision(topic, schema).framing.prefix + b"null", pa.binary())
        return pc.fill_null(super().from_connect_data(topic, schema, values), null)

    def encode(self, steps: Any, prefix: bytes, values: pa.Array) -> pa.Array:
        """Return JSON in UTF-8."""
        if steps is not None:
            for field in missing_values(steps, values):
                raise DataError(f"The field {field} is null, but its schema says that it never is: declare it nullable")
            check_numbers(values)
        return _Renderer(numeric_decimals=self._options.numeric_decimals).framed(values, prefix)

    @property
    def _options(self) -> JsonSchemaOptions:
        return JsonSchemaOptions(
            additional_properties=self.settings["object.additional.properties"],
            numeric_decimals=self.settings["decimal.format"].upper() == "NUMERIC",
        )

    @staticmethod
    def _has_no_schema(schema: DataType | None) -> bool:
        return schema is None or schema.typeName() == "void"


def check_numbers(values: pa.Array, path: str = "") -> None:
    """Raise DataError for NaN and infinities: JSON has only texts for them, but their JSON Schema allows only numbers.

    Java's converter writes these texts, but reads them as zero.
    """
    values = plain(values)
    kind = values.type
    if pa.types.is_floating(kind):
        numbers = values.drop_null() if values.null_count else values
        if not np.isfinite(numbers.to_numpy(zero_copy_only=False)).all():
            raise DataError(
                f"{path or 'The value'} is NaN or infinite. JSON has no numbers for these values, and the JSON Schema "
                "allows only numbers: make it null, or a STRING"
            )
    elif pa.types.is_struct(kind):
        parts = values.flatten() if _has_floats(kind) else []
        for field, part in zip(kind, parts, strict=False):
            check_numbers(part, f"{path}.{field.name}" if path else field.name)
    elif pa.types.is_list(kind) and _has_floats(kind):
        check_numbers(values.flatten(), f"{path}[]")
    elif pa.types.is_map(kind) and _has_floats(kind):
        for name, part in (("key", values.keys), ("value", values.items)):
            check_numbers(children(values, part)[1][0], f"{path}[{name}]")


@lru_cache(maxsize=512)
def _has_floats(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_has_floats(kind.field(at).type) for at in range(kind.num_fields))


def _only_false(name: str, value: Any) -> None:
    if value:
        raise ConfigError(f"{name}=true is not supported: values are made by their schema. Remove it", name=name)


def _content(schema: RegistrySchema) -> object:
    """Return a schema's JSON in a normal form, because readers treat schemas with the same JSON alike."""
    try:
        return json.dumps(json.loads(schema.text), sort_keys=True)
    except ValueError:
        return schema.text


CONTENT[JsonSchemaConverter.language] = _content
