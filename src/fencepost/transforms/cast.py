"""Changes the types of fields, or of the whole key or value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.transforms.base import PartTransformation, define_null_default, for_keys, planned_by_schema, text
from fencepost.transforms.field_paths import Change, FieldPath, define_syntax, field_path, with_changes

_TYPES: Final[dict[str, t.DataType]] = {
    "int8": t.ByteType(),
    "int16": t.ShortType(),
    "int32": t.IntegerType(),
    "int64": t.LongType(),
    "float32": t.FloatType(),
    "float64": t.DoubleType(),
    "boolean": t.BooleanType(),
    "string": t.StringType(),
}


@planned_by_schema
class Cast(PartTransformation):
    """Changes the types of fields, or of the whole value, as `spec` defines.

    If a value does not fit, the task fails. Connect's transform would wrap numbers around, or make them infinite.

    A TIMESTAMP counts as its milliseconds since the epoch, a DATE as its days since the epoch. As text, both are in ISO
    8601 and UTC. Bytes become a text in base64.
    """

    definitions = define_syntax(define_null_default(
        ConfigDef().define(
            "spec", ConfigDef.Type.LIST, ConfigDef.NO_DEFAULT, ConfigDef.Importance.HIGH,
            f"The fields and their new types, as 'a:int32,b:string', or one type for the whole key or value. The types are "
            f"{', '.join(_TYPES)}.",
        )
    ))  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for an unknown type."""
        super().configure(configs)
        self._whole: t.DataType | None = None
        self._fields: dict[FieldPath, t.DataType] = {}
        for item in self.properties["spec"]:
            name, colon, kind = item.rpartition(":")
            if kind.strip().lower() not in _TYPES:
                raise ConfigError(
                    f"spec has {item!r}, which is not a type or field:type; types are {', '.join(_TYPES)}", name="spec"
                )
            if colon:
                self._fields[field_path(name.strip(), self.properties, "spec")] = _TYPES[kind.strip().lower()]
            else:
                self._whole = _TYPES[kind.strip().lower()]
        if self._whole is not None and len(self.properties["spec"]) > 1:
            raise ConfigError("spec has a type for the whole and types of fields: give one or the other", name="spec")

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the part with its types changed."""
        if self._whole is not None:
            return self._cast(column, kind, self._whole, self.part)
        return with_changes(column, self.struct(kind), {path: self._change(new) for path, new in self._fields.items()})

    def _change(self, new: t.DataType) -> Change:
        return lambda content, field: {field.name: self._cast(content, field.dataType, new, field.name)}

    def _cast(self, column: Column, old: t.DataType, new: t.DataType, name: str) -> Column:
        if isinstance(old, t.StructType | t.ArrayType | t.MapType):
            raise DataError(
                f"The transform {type(self).__name__} cannot make {new.simpleString()} of {name}, which is of type "
                f"{old.simpleString()}: only simple types can be cast"
            )
        if isinstance(new, t.StringType):
            return text(column, old)
        if isinstance(old, t.TimestampType):
            return F.unix_millis(column).cast(new)
        if isinstance(old, t.DateType):
            return F.unix_date(column).cast(new)
        if isinstance(new, t.FloatType | t.DoubleType):
            return self._number(column, old, new, name)
        return column.cast(new)

    def _number(self, column: Column, old: t.DataType, new: t.DataType, name: str) -> Column:
        """Cast to FLOAT or DOUBLE. Refuse numbers that are too large: Spark would make infinity of them."""
        number = column.cast(new)
        if isinstance(old, t.StringType):
            infinite = F.lower(column).contains("inf")
        elif isinstance(old, t.FloatType | t.DoubleType):
            infinite = F.abs(column) == math.inf
        else:
            return number
        reason = F.concat(
            F.lit(f"{name} is "), column.cast("STRING"), F.lit(f", which {new.simpleString()} cannot hold")
        )
        too_large = (F.abs(number) == math.inf) & ~infinite
        return F.when(too_large, F.raise_error(reason).cast(new)).otherwise(number)


CastKey = for_keys(Cast)
