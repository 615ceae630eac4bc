"""Moves or copies fields of keys and values to headers."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.config.validators import not_empty, one_of
from fencepost.transforms.base import PartTransformation, define_null_default, for_keys, planned_by_schema, text
from fencepost.transforms.field_paths import content_at, define_syntax, field_path, without

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance


@planned_by_schema
class HeaderFrom(PartTransformation):
    """Moves or copies fields to headers, after the existing headers.

    All headers of a batch have the same type, so the content of a field becomes a text: TIMESTAMP in ISO 8601 and UTC,
    bytes in base64, structures in JSON. A null field becomes a null header. A record with a null key or value is
    unchanged.
    """

    definitions = define_syntax(define_null_default(
        ConfigDef()
        .define("fields", _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "The fields to move or copy, comma-separated.", validator=not_empty)
        .define(
            "headers", _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "The names of the new headers, in the order of fields.", validator=not_empty,
        )
        .define(
            "operation", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "move: the fields are removed from the record. copy: they stay.", validator=one_of(("move", "copy")),
        )
    ))  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError if the numbers of fields and headers differ."""
        super().configure(configs)
        if len(self.properties["fields"]) != len(self.properties["headers"]):
            raise ConfigError("fields and headers must be lists of the same length", name="headers")
        self._paths = [field_path(name, self.properties, "fields") for name in self.properties["fields"]]

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with the new headers, and without the fields that were moved."""
        part, schema = F.col(self.part), records.schema
        kind, headers = schema[self.part].dataType, schema["headers"].dataType
        if isinstance(kind, t.NullType):
            return records
        new = F.array(*self._headers(part, kind)).cast(headers)
        known = F.coalesce(F.col("headers"), F.array().cast(headers))
        columns = {"headers": F.when(part.isNotNull(), F.concat(known, new)).otherwise(F.col("headers"))}
        if self.properties["operation"].lower() == "move":
            columns[self.part] = self.changed(part, kind)
        return records.withColumns(columns)

    def changed(self, column: Column, kind: t.DataType) -> Column:
        """Return the part without the fields that are moved."""
        left = without(column, self.struct(kind), self._paths)
        if left is None:
            raise DataError(
                f"The transform {type(self).__name__} moves all fields of the {self.part}, or of a struct within it: copy "
                "them, or leave one"
            )
        return left

    def _headers(self, column: Column, kind: t.DataType) -> list[Column]:
        headers = []
        for path, header in zip(self._paths, self.properties["headers"], strict=True):
            content = text(content_at(column, path), self.field(kind, path).dataType)
            headers.append(F.struct(F.lit(header).alias("key"), content.alias("value")))
        return headers


HeaderFromKey = for_keys(HeaderFrom)
