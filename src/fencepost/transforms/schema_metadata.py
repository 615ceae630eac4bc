"""Sets the name and the version of the schema of keys and values."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.schema_name import SCHEMA_METADATA
from fencepost.transforms.base import PartTransformation, define_null_default, for_keys, planned_by_schema

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance


@planned_by_schema
class SetSchemaMetadata(PartTransformation):
    """Sets the name and the version of a struct's schema, which JsonConverter writes with `schemas.enable`.

    Make this the last transform: a later transform of the same key or value creates a new schema without a name.
    It cannot have a predicate, because all records of a batch share their schema. It needs a struct with a schema.
    """

    definitions = define_null_default(
        ConfigDef()
        .define(
            "schema.name", _Type.STRING, None, _Importance.HIGH, "The new name of the schema. Unset: the name stays."
        )
        .define(
            "schema.version",
            _Type.INT,
            None,
            _Importance.HIGH,
            "The new version of the schema. Unset: the version stays.",
        )
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError if they set nothing."""
        super().configure(configs)
        given = {name: self.properties[f"schema.{name}"] for name in ("name", "version")}
        self._identity = {name: value for name, value in given.items() if value is not None}
        if not self._identity:
            raise ConfigError("There is nothing to set: give schema.name, schema.version or both", name="schema.name")

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records. The name and version are in the metadata of the column of the key or value."""
        field = records.schema[self.part]
        if isinstance(field.dataType, t.NullType):
            return records
        metadata = dict(field.metadata or {})
        metadata[SCHEMA_METADATA] = {**metadata.get(SCHEMA_METADATA, {}), **self._identity}
        part = self.changed(F.col(self.part), field.dataType)
        return records.withColumn(self.part, part.alias(self.part, metadata=metadata))

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the part unchanged."""
        self.struct(kind)
        return column


SetSchemaMetadataKey = for_keys(SetSchemaMetadata)
