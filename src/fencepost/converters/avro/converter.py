"""Confluent's AvroConverter: writes the id of a schema in a registry, and then Avro, from Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import DataError
from fencepost.converters.avro.plan import plan
from fencepost.converters.avro.schema import (
    AvroOptions,
    avro_schema,
    canonical_form,
    parsed_schema,
    schema_text,
)
from fencepost.converters.avro.steps import encoded
from fencepost.converters.columnar.pieces import constant
from fencepost.converters.registry.base import Derived, Plan, RegistryConverter
from fencepost.converters.registry.config import SCHEMA_NAMES
from fencepost.converters.registry.registry import CONTENT
from fencepost.converters.registry.schema_names import schema_in_topic
from fencepost.converters.registry.schemas import RegistrySchema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_BLOCK: Final = 8192
"""The number of rows that are written together: their bytes fit the processor's cache."""


class AvroConverter(RegistryConverter):
    """Writes Avro with the id of its schema, as Java's converter of this name does.

    A null stays a null key or value. Values without a schema are written as `Anything` records.
    """

    language: ClassVar[str] = "AVRO"

    def config(self) -> ConfigDef:
        """Return the definitions of the registry's and AvroData's properties."""
        kind, low = ConfigDef.Type.BOOLEAN, ConfigDef.Importance.LOW
        return (
            super().config()
            .define("connect.meta.data", kind, True, low,
                    "Whether Avro schemas contain the names, versions, docs and parameters of Connect's schemas, in "
                    "attributes such as connect.name.")
            .define("enhanced.avro.schema.support", kind, False, low,
                    "Whether strings whose Connect schema has the parameters of an enum are written as Avro's enum.")
            .define("scrub.invalid.names", kind, False, low,
                    "Whether characters in names that Avro does not allow are replaced. If false, such names are "
                    "refused.")
            .define("allow.optional.map.keys", kind, False, low,
                    "Whether maps with optional strings as keys are written as Avro's map. If false, they are written "
                    "as arrays of entries.")
            .define("generalized.sum.type.support", kind, False, low,
                    "true has the same effect as enhanced.avro.schema.support=true.")
        )  # fmt: skip

    def derive(self, topic: str, schema: DataType | None) -> Derived:
        """Return Avro's schema for a Spark type."""
        connect = schema_in_topic(schema, topic, self.role, self.settings[SCHEMA_NAMES])
        found = avro_schema(connect, self._options)
        name = found["name"] if isinstance(found, dict) and found["type"] == "record" else None
        kind = found if isinstance(found, str) else found[0] if isinstance(found, list) else found["type"]
        return Derived(RegistrySchema(schema_text(found), self.language), name, str(kind), connect)

    def plan(
        self, derived: Derived, written: RegistrySchema, referred: Mapping[str, RegistrySchema], *, strict: bool
    ) -> Plan:
        """Return the steps that write values of the derived schema."""
        try:
            parsed = parsed_schema(written.text)
            others = [parsed_schema(part.text) for part in referred.values()]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(f"The registry's schema is not one of Avro: {error}") from error
        return Plan(plan(derived.connect, parsed, self._options, others, strict=strict))

    def encode(self, steps: Any, prefix: bytes, values: pa.Array) -> pa.Array:
        """Return Avro's binary encoding."""
        parts = [_encoded(steps, prefix, values.slice(start, _BLOCK)) for start in range(0, len(values), _BLOCK)]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    @property
    def _options(self) -> AvroOptions:
        settings = self.settings
        return AvroOptions(
            metadata=settings["connect.meta.data"],
            enhanced=settings["enhanced.avro.schema.support"] or settings["generalized.sum.type.support"],
            optional_map_keys=settings["allow.optional.map.keys"],
            scrub=settings["scrub.invalid.names"],
        )


def _encoded(steps: Any, prefix: bytes, values: pa.Array) -> pa.Array:
    nulls = np.asarray(values.is_null()) if values.null_count else None
    rows = None if nulls is None else ~nulls
    before = [constant(prefix, len(values), rows)] if prefix else []
    return encoded(steps, values, rows, "", before).as_binary(nulls)


def _content(schema: RegistrySchema) -> object:
    """Return the part of a schema that determines how readers read its data: its canonical form."""
    try:
        return canonical_form(parsed_schema(schema.text))
    except (ValueError, KeyError, TypeError):
        return schema.text


CONTENT[AvroConverter.language] = _content
