"""Transforms of the fields of keys and values: InsertField, ReplaceField, ExtractField, HoistField, MaskField, Flatten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.config.validators import not_blank
from fencepost.transforms.base import PartTransformation, planned_by_schema, rebuilt

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_MEDIUM = _Importance.MEDIUM


@planned_by_schema
class InsertField(PartTransformation):
    """Adds fields that hold the record's topic, partition or timestamp, or a fixed text.

    Connect's suffixes of a field's name, `!` and `?`, are accepted; the fields are always nullable. An existing field
    is replaced. The timestamp of a record without one is null.
    """

    definitions = (
        ConfigDef()
        .define("topic.field", _Type.STRING, None, _MEDIUM, "The field for the topic.")
        .define("partition.field", _Type.STRING, None, _MEDIUM, "The field for the Kafka partition.")
        .define("timestamp.field", _Type.STRING, None, _MEDIUM, "The field for the record's timestamp.")
        .define("static.field", _Type.STRING, None, _MEDIUM, "The field for the value static.value.")
        .define("static.value", _Type.STRING, None, _MEDIUM, "The text for the field static.field.")
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError if they name no field, or a static one without a value."""
        if configs.get("offset.field"):
            raise ConfigError(
                "offset.field has no meaning for a source: the offset is not known before the record is written. "
                "Remove it",
                name="offset.field",
            )
        super().configure(configs)
        given = self.properties
        if (given["static.field"] is None) != (given["static.value"] is None):
            raise ConfigError("static.field and static.value belong together: set both", name="static.value")
        if not any(given[name] for name in ("topic.field", "partition.field", "timestamp.field", "static.field")):
            raise ConfigError("No field to insert is named: set topic.field, for example", name="topic.field")

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the struct with the fields added."""
        fields = {field.name: column.getField(field.name) for field in self.fields(kind)}
        sources = {
            "topic.field": F.col("topic"),
            "partition.field": F.col("partition"),
            "timestamp.field": F.timestamp_millis(F.col("timestamp")),
            "static.field": F.lit(self.properties["static.value"]),
        }
        for name, source in sources.items():
            if self.properties[name]:
                fields[self.properties[name].rstrip("!?")] = source
        return rebuilt(column, [field.alias(name) for name, field in fields.items()])


@planned_by_schema
class ReplaceField(PartTransformation):
    """Removes or keeps listed fields, and renames fields."""

    definitions = (
        ConfigDef()
        .define("exclude", _Type.LIST, "", _MEDIUM, "The fields to remove. Takes precedence over include.")
        .define("include", _Type.LIST, "", _MEDIUM, "The fields to keep; empty: all.")
        .define("renames", _Type.LIST, "", _MEDIUM, "Old and new names of fields, as 'old:new,other:another'.")
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for a malformed list of names."""
        super().configure(configs)
        pairs = [pair.partition(":") for pair in self.properties["renames"] if pair]
        if not all(old.strip() and new.strip() for old, _, new in pairs):
            raise ConfigError("renames must be a list of old:new", name="renames")
        self._renames = {old.strip(): new.strip() for old, _, new in pairs}

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the struct with the remaining fields, under their new names."""
        include, exclude = self.properties["include"], self.properties["exclude"]
        names = [field.name for field in self.fields(kind)]
        kept = [name for name in names if name not in exclude and (name in include or not any(include))]
        if not kept:
            raise DataError(
                f"The transform {type(self).__name__} leaves no field of {', '.join(names)}: correct include or exclude"
            )
        return rebuilt(column, [column.getField(name).alias(self._renames.get(name, name)) for name in kept])


@planned_by_schema
class ExtractField(PartTransformation):
    """Replaces the whole key or value by the content of one of its fields."""

    definitions = ConfigDef().define(
        "field", _Type.STRING, ConfigDef.NO_DEFAULT, _MEDIUM, "The field to extract.", validator=not_blank
    )

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the field's content; null where the whole is null."""
        return column.getField(self.field(kind, self.properties["field"]).name)


@planned_by_schema
class HoistField(PartTransformation):
    """Wraps the whole key or value in a struct with one field. A null becomes a struct whose field is null."""

    definitions = ConfigDef().define(
        "field", _Type.STRING, ConfigDef.NO_DEFAULT, _MEDIUM, "The name of the field.", validator=not_blank
    )

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with their part wrapped, a null as well."""
        return records.withColumn(self.part, self.changed(F.col(self.part), records.schema[self.part].dataType))

    def changed(self, column: Column, kind: t.DataType) -> Column:  # noqa: ARG002 - any type can be wrapped
        """Return a struct around the part."""
        return F.struct(column.alias(self.properties["field"]))


@planned_by_schema
class MaskField(PartTransformation):
    """Replaces fields by a neutral value: `replacement`, else 0, an empty text, false, the epoch."""

    definitions = (
        ConfigDef()
        .define("fields", _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH, "The fields to mask.")
        .define("replacement", _Type.STRING, None, _Importance.LOW, "The value for texts and numbers.")
    )

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the struct with its fields masked; a field that is null stays null."""
        masked = {name: self._mask(self.field(kind, name)) for name in self.properties["fields"]}
        fields = []
        for field in self.fields(kind):
            content = column.getField(field.name)
            if field.name in masked:
                content = F.when(content.isNotNull(), masked[field.name])
            fields.append(content.alias(field.name))
        return rebuilt(column, fields)

    def _mask(self, field: t.StructField) -> Column:
        replacement, kind = self.properties["replacement"], field.dataType
        if isinstance(kind, t.NumericType | t.StringType):
            default = "" if isinstance(kind, t.StringType) else "0"
            return F.lit(default if replacement is None else replacement).cast(kind)
        if replacement is None and isinstance(kind, t.ArrayType | t.MapType):
            return (F.array() if isinstance(kind, t.ArrayType) else F.create_map()).cast(kind)
        plain: dict[type[t.DataType], Any] = {
            t.BooleanType: False, t.DateType: "1970-01-01", t.TimestampNTZType: "1970-01-01",
            t.TimestampType: "1970-01-01T00:00:00Z",
        }  # fmt: skip
        if replacement is not None or type(kind) not in plain:
            raise DataError(
                f"The transform {type(self).__name__} cannot mask the field {field.name} of type {kind.simpleString()}"
                f"{'' if replacement is None else ' with a replacement, which is for texts and numbers'}: "
                "use ReplaceField to leave it out"
            )
        return F.lit(plain[type(kind)]).cast(kind)


@planned_by_schema
class Flatten(PartTransformation):
    """Flattens nested structs into one struct; the names of the fields are joined. Arrays and maps are unchanged."""

    definitions = ConfigDef().define("delimiter", _Type.STRING, ".", _MEDIUM, "The separator between the names.")

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the flat struct."""
        self.fields(kind)
        leaves = [
            reduce(Column.getField, path, column).alias(self.properties["delimiter"].join(path))
            for path in _leaves(kind)
        ]
        return rebuilt(column, leaves)


def _leaves(kind: t.DataType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(kind, t.StructType):
        for field in kind:
            yield from _leaves(field.dataType, (*path, field.name))
    else:
        yield path


@planned_by_schema
class InsertFieldKey(InsertField):
    """InsertField for keys."""

    part: ClassVar[str] = "key"


@planned_by_schema
class ReplaceFieldKey(ReplaceField):
    """ReplaceField for keys."""

    part: ClassVar[str] = "key"


@planned_by_schema
class ExtractFieldKey(ExtractField):
    """ExtractField for keys."""

    part: ClassVar[str] = "key"


@planned_by_schema
class HoistFieldKey(HoistField):
    """HoistField for keys."""

    part: ClassVar[str] = "key"


@planned_by_schema
class MaskFieldKey(MaskField):
    """MaskField for keys."""

    part: ClassVar[str] = "key"


@planned_by_schema
class FlattenKey(Flatten):
    """Flatten for keys."""

    part: ClassVar[str] = "key"
