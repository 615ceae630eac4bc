"""The name and version of a schema, which Connect's schemas have and Spark's types do not.

For a key or value that is a struct they are in the metadata of a DataFrame's column, under `SCHEMA_METADATA`, as an
object with `name` or `version` or both. Converters only get types, so they get them as a `NamedStruct`.

For a field within a struct they are in its comment, the only other attribute of a field in DDL: `ts: BIGINT COMMENT
'connect.name=io.debezium.time.Timestamp version=1'`. Other comments mean nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import DataType, StructField, StructType

SCHEMA_METADATA: Final = "fencepost.schema"
NULLS_METADATA: Final = "fencepost.nulls"
"""In the metadata of a DataFrame's column: nulls in it have no schema, so they are Kafka's nulls in every format."""
JSON_METADATA: Final = "fencepost.json"
"""In the metadata of a DataFrame's column of texts: they are JSON of values without a schema."""
IDENTITY: Final = "__fencepost_identity"
"""A DataFrame's column with the name and version of the schema of each row's value, as an object in JSON."""
_COMMENT: Final = re.compile(r"connect\.name=([\w.$]+) version=(\d+)")


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


def named_field(name: str) -> str:
    """Return the DDL that gives a field version 1 of the schema `name`, to follow the field's type."""
    return f"COMMENT 'connect.name={name} version=1'"


def field_identity(field: StructField) -> dict[str, Any]:
    """Return the name and version that a field's comment gives it, nothing for other fields."""
    found = _COMMENT.fullmatch((field.metadata or {}).get("comment", ""))
    return {} if found is None else {"name": found[1], "version": int(found[2])}
