"""References to fields of a change event, as `add.fields` and `add.headers` of ExtractNewRecordState name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql.types import DataType, StructType

from fencepost.api.errors import ConfigError

OPERATION: Final = "op"
OLD_KEY: Final = "__debezium.oldkey"
"""The header of the create that an update of a key becomes."""

_OF_EVENT: Final = (OPERATION, "ts_ms", "ts_us", "ts_ns")
_OF_TRANSACTION: Final = ("id", "data_collection_order", "total_order")
_STRUCTS: Final = ("before", "after", "source", "transaction")


@dataclass(frozen=True, slots=True)
class EventField:
    """A field of an event, or of one of its structs, and the name of its copy."""

    struct: str | None
    field: str
    name: str

    @classmethod
    def parsed(cls, given: str, *, prefix: str, property_name: str) -> EventField:
        """Return the reference for `field`, `struct.field` or either with `:name`.

        Raises ConfigError for any other form.
        """
        path, _, name = (part.strip() for part in given.partition(":"))
        struct, dot, field = path.partition(".")
        if not dot:
            return cls(_struct_of(path), path, prefix + (name or path))
        if struct not in _STRUCTS or not field or "." in field:
            raise ConfigError(
                f"{property_name} has {given!r}, which is not a field of change events: write a field's name, or its "
                f"struct ({', '.join(_STRUCTS)}) and its name as in source.lsn",
                name=property_name,
            )
        return cls(struct, field, prefix + (name or f"{struct}_{field}"))

    def of(self, event: Column, kind: StructType) -> tuple[Column, DataType] | None:
        """Return the column and the type of the field in events of the type `kind`, None if that has no such field.

        The column is null where the field's struct is.
        """
        if self.struct is None:
            return (event[self.field], kind[self.field].dataType) if self.field in kind.names else None
        within = kind[self.struct].dataType if self.struct in kind.names else None
        if not isinstance(within, StructType) or self.field not in within.names:
            return None
        return event[self.struct][self.field], within[self.field].dataType


def event_fields(given: Sequence[str], *, prefix: str, property_name: str) -> list[EventField]:
    """Return the references of a list. Raises ConfigError for one that is malformed."""
    return [EventField.parsed(item, prefix=prefix, property_name=property_name) for item in given if item]


def _struct_of(field: str) -> str | None:
    """Debezium's rule for names without a struct."""
    if field in _OF_EVENT:
        return None
    return "transaction" if field in _OF_TRANSACTION else "source"
