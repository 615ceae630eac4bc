"""A struct's name and version, which Connect's schemas have and Spark's types do not.

In a DataFrame they are in the metadata of the column, under `SCHEMA_METADATA`, as an object with `name` or `version` or
both. Converters only get types, so they get them as a `NamedStruct`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import DataType, StructField, StructType

SCHEMA_METADATA: Final = "fencepost.schema"


class NamedStruct(StructType):
    """A struct type with a schema's `identity`: its `name` or `version` or both."""

    def __init__(self, fields: list[StructField], identity: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.identity = dict(identity)


def named(field: StructField) -> DataType:
    """Return the type of a DataFrame's column, with the name and version that its metadata gives a struct."""
    identity = (field.metadata or {}).get(SCHEMA_METADATA)
    if identity and isinstance(field.dataType, StructType):
        return NamedStruct(field.dataType.fields, dict(sorted(identity.items())))
    return field.dataType
