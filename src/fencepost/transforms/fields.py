"""Transforms of the fields of keys and values: InsertField, ReplaceField, ExtractField, HoistField, MaskField, Flatten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.config.validators import not_blank, not_empty
from fencepost.transforms.base import PartTransformation, define_null_default, for_keys, planned_by_schema
from fencepost.transforms.field_paths import (
    FieldPath,
    NameTakenError,
    content_at,
    define_syntax,
    field_path,
    rebuilt,
    selected,
    with_changes,
    with_fields,
)

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_MEDIUM = _Importance.MEDIUM
_INSERTED: Final = ("topic.field", "partition.field", "timestamp.field", "static.field")


@planned_by_schema
class InsertField(PartTransformation):
    """Adds fields that hold the record's topic, partition or timestamp, or a fixed text.

    The type of the new field allows null, unless the name is given with the suffix `!`. The suffix `?` says explicitly
    that null is allowed. An existing field is replaced. If a record has no partition or timestamp, the field is null;
    with `!`, the record is refused.
    """

    definitions = define_syntax(
        define_null_default(
            ConfigDef()
            .define("topic.field", _Type.STRING, None, _MEDIUM, "The name of the new field with the record's topic.")
            .define(
                "partition.field",
                _Type.STRING,
                None,
                _MEDIUM,
                "The name of the new field with the record's Kafka partition.",
            )
            .define(
                "timestamp.field", _Type.STRING, None, _MEDIUM, "The name of the new field with the record's timestamp."
            )
            .define(
                "static.field",
                _Type.STRING,
                None,
                _MEDIUM,
                "The name of the new field with the fixed text static.value.",
            )
            .define(
                "static.value",
                _Type.STRING,
                None,
                _MEDIUM,
                "The fixed text that static.field contains. Required with static.field.",
            )
        )
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError if they name no field, or define the static field incompletely."""
        super().configure(configs)
        given = self.properties
        if (given["static.field"] is None) != (given["static.value"] is None):
            raise ConfigError("static.field and static.value belong together: set both", name="static.value")
        named = {name: given[name] for name in _INSERTED if given[name]}
        self._paths = {
            name: field_path(field[:-1] if field[-1] in "!?" else field, given, name) for name, field in named.items()
        }
        self._required = {name for name, field in named.items() if field[-1] == "!"}
        if not self._paths:
            raise ConfigError("No field to insert is named: set topic.field, for example", name="topic.field")

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the struct with the fields added. Raises DataError if a struct on a field's path does not exist."""
        struct = self.struct(kind)
        for path in self._paths.values():
            if len(path) > 1 and not isinstance(within := self.field(kind, path[:-1]).dataType, t.StructType):
                raise DataError(
                    f"The transform {type(self).__name__} cannot insert {'.'.join(path)}: the field "
                    f"{'.'.join(path[:-1])} is not a struct, but of type {within.simpleString()}"
                )
        return with_fields(column, struct, {path: self._content(name, column) for name, path in self._paths.items()})

    def _content(self, name: str, part: Column) -> Column:
        """Return the value to insert. Its type allows null, unless the field is required."""
        required = name in self._required
        match name:
            case "topic.field":
                content = F.coalesce(F.col("topic"), F.lit("")) if required else F.col("topic")
            case "partition.field":
                content = self._given("partition", part, required=required)
            case "timestamp.field":
                content = F.timestamp_millis(self._given("timestamp", part, required=required))
            case _:
                content = F.lit(self.properties["static.value"])
        return content if required else F.when(part.isNotNull(), content)

    def _given(self, column: str, part: Column, *, required: bool) -> Column:
        if not required:
            return F.col(column)
        why = f"A record has no {column}, which {type(self).__name__} is to insert: remove the ! of {column}.field"
        # 0 and 1 are never inserted. They only make the type not nullable.
        refusal = F.when(part.isNotNull(), F.raise_error(F.lit(why)))
        return F.coalesce(F.col(column), F.when(refusal.isNull(), F.lit(0)).otherwise(F.lit(1)))


@planned_by_schema
class ReplaceField(PartTransformation):
    """Removes or keeps listed fields, and renames fields."""

    definitions = define_syntax(
        define_null_default(
            ConfigDef()
            .define("exclude", _Type.LIST, "", _MEDIUM, "The fields to remove. Takes precedence over include.")
            .define("include", _Type.LIST, "", _MEDIUM, "The fields to keep; empty: all.")
            .define(
                "renames",
                _Type.LIST,
                "",
                _MEDIUM,
                "The fields to rename, with their old and new names, as 'old:new,other:another'.",
            )
        )
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for a malformed list of names."""
        super().configure(configs)
        given = self.properties
        pairs = [pair.partition(":") for pair in given["renames"] if pair]
        if not all(old.strip() and new.strip() for old, _, new in pairs):
            raise ConfigError("renames must be a list of old:new", name="renames")
        self._renames = {field_path(old.strip(), given, "renames"): new.strip() for old, _, new in pairs}
        results = [(*path[:-1], new) for path, new in self._renames.items()]
        if twice := sorted({".".join(path) for path in results if results.count(path) > 1}):
            raise ConfigError(
                f"renames gives the name {twice[0]} to several fields: give each another name", name="renames"
            )
        self._include, self._exclude = (
            {field_path(field, given, name) for field in given[name] if field} for name in ("include", "exclude")
        )

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the struct with the remaining fields under their new names."""
        names = dict.fromkeys(self._include | self._exclude, "") | self._renames
        try:
            left = selected(column, self.struct(kind), self._keeps, names)
        except NameTakenError as error:
            raise DataError(
                f"The transform {type(self).__name__} would make two fields named {error} of the {self.part}: correct "
                "renames, or exclude one of them"
            ) from None
        if left is None:
            raise DataError(
                f"The transform {type(self).__name__} leaves no field of {', '.join(self.struct(kind).names)}, or of a "
                "struct within them: correct include or exclude"
            )
        return left

    def _keeps(self, path: FieldPath) -> bool:
        """Whether a field is kept: it is included itself, or a struct around it or a field within it is included."""
        if path in self._exclude:
            return False
        return not self._include or any(
            path[: len(other)] == other or other[: len(path)] == path for other in self._include
        )


@planned_by_schema
class ExtractField(PartTransformation):
    """Replaces the whole key or value by the content of one of its fields."""

    definitions = define_syntax(
        define_null_default(
            ConfigDef().define(
                "field", _Type.STRING, ConfigDef.NO_DEFAULT, _MEDIUM, "The field to extract.", validator=not_blank
            )
        )
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for a malformed path."""
        super().configure(configs)
        self._path = field_path(self.properties["field"], self.properties, "field")

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the content of the field. It is null where the whole key or value is null."""
        self.field(kind, self._path)
        return content_at(column, self._path)


@planned_by_schema
class HoistField(PartTransformation):
    """Wraps the whole key or value in a struct with one field. A null becomes a struct whose field is null."""

    definitions = ConfigDef().define(
        "field", _Type.STRING, ConfigDef.NO_DEFAULT, _MEDIUM, "The name of the field.", validator=not_blank
    )

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with their key or value wrapped, even if it is null."""
        return records.withColumn(self.part, self.changed(F.col(self.part), records.schema[self.part].dataType))

    def changed(self, column: Column, kind: t.DataType) -> Column:  # noqa: ARG002 - any type can be wrapped
        """Return a struct around the part."""
        return F.struct(column.alias(self.properties["field"]))


@planned_by_schema
class MaskField(PartTransformation):
    """Replaces the values of fields: by `replacement`, else by 0, an empty string, false or 1970-01-01."""

    definitions = define_syntax(
        define_null_default(
            ConfigDef()
            .define(
                "fields", _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH, "The fields to mask.", validator=not_empty
            )
            .define(
                "replacement",
                _Type.STRING,
                None,
                _Importance.LOW,
                "The value that replaces strings and numbers; fields of other types are then refused. Unset: 0, an "
                "empty string, false, or 1970-01-01, by the type.",
            )
        )
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for a malformed path."""
        super().configure(configs)
        self._paths = [field_path(name, self.properties, "fields") for name in self.properties["fields"]]

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the struct with the fields masked. A null field stays null."""
        for path in self._paths:
            self.field(kind, path)
        return with_changes(column, self.struct(kind), dict.fromkeys(self._paths, self._masked))

    def _masked(self, content: Column, field: t.StructField) -> dict[str, Column]:
        return {field.name: F.when(content.isNotNull(), self._mask(field))}

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
        self.struct(kind)
        paths = {}
        for path in _leaves(kind):
            name = self.properties["delimiter"].join(path)
            if name in paths:
                raise DataError(
                    f"The transform {type(self).__name__} would make two fields named {name} of the {self.part}: set "
                    "another delimiter, or rename one of them with ReplaceField"
                )
            paths[name] = path
        return rebuilt(column, [content_at(column, path).alias(name) for name, path in paths.items()])


def _leaves(kind: t.DataType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(kind, t.StructType):
        for field in kind:
            yield from _leaves(field.dataType, (*path, field.name))
    else:
        yield path


InsertFieldKey = for_keys(InsertField)
ReplaceFieldKey = for_keys(ReplaceField)
ExtractFieldKey = for_keys(ExtractField)
HoistFieldKey = for_keys(HoistField)
MaskFieldKey = for_keys(MaskField)
FlattenKey = for_keys(Flatten)
