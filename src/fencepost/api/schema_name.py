"""The name and version of a schema. Connect's schemas have them, but Spark's types do not.

For a key or value that is a struct, name and version are in the metadata of a DataFrame's column, under
`SCHEMA_METADATA`, as an object with `name` or `version` or both. Converters only get types, so for them name and
version are in a `NamedStruct`.

For a field within a struct, name and version are in the field's comment, the only other attribute of a field in DDL:
`ts: BIGINT COMMENT 'connect.name=io.debezium.time.Timestamp version=1'`. Other comments have no meaning here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import DataType, StructField, StructType

SCHEMA_METADATA: Final = "fencepost.schema"
NULLS_METADATA: Final = "fencepost.nulls"
"""A key in the metadata of a DataFrame's column: the column's nulls have no schema, so they are Kafka's nulls in every
format."""
JSON_METADATA: Final = "fencepost.json"
"""A key in the metadata of a DataFrame's column of texts: each text is the JSON of a value without a schema."""
IDENTITY: Final = "__fencepost_identity"
"""A DataFrame's column that contains the name and version of each row's value schema, as a JSON object."""
_COMMENT: Final = re.compile(r"connect\.name=([\w.$]+) version=(\d+)")


class NamedStruct(StructType):
    """A struct type with a schema's `identity`, which contains `name` or `version` or both."""

    def __init__(self, fields: list[StructField], identity: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.identity = dict(identity)


def named(field: StructField) -> DataType:
    """Return the type of a DataFrame's column.

    The type of a struct includes the name and version in the column's metadata.
    """
    identity = (field.metadata or {}).get(SCHEMA_METADATA)
    if identity and isinstance(field.dataType, StructType):
        return NamedStruct(field.dataType.fields, dict(sorted(identity.items())))
    return field.dataType


def named_field(name: str) -> str:
    """Return a COMMENT for DDL. If it follows a field's type, the field has the schema `name` in version 1."""
    return f"COMMENT 'connect.name={name} version=1'"


def field_identity(field: StructField) -> dict[str, Any]:
    """Return the name and version of the schema in a field's comment; an empty dict if the comment names no schema."""
    found = _COMMENT.fullmatch((field.metadata or {}).get("comment", ""))
    return {} if found is None else {"name": found[1], "version": int(found[2])}
