"""References to fields of a change event, as in ExtractNewRecordState's `add.fields` and `add.headers`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql.types import DataType, StructType

from fencepost.api.errors import ConfigError

OPERATION: Final = "op"
OLD_KEY: Final = "__debezium.oldkey"
"""A header of a create event that results from the update of a key."""

_OF_EVENT: Final = (OPERATION, "ts_ms", "ts_us", "ts_ns")
_OF_TRANSACTION: Final = ("id", "data_collection_order", "total_order")
_STRUCTS: Final = ("before", "after", "source", "transaction")


@dataclass(frozen=True, slots=True)
class EventField:
    """A field of an event, or of one of the event's structs, and the name for its copy."""

    struct: str | None
    field: str
    name: str

    @classmethod
    def parsed(cls, given: str, *, prefix: str, property_name: str) -> EventField:
        """Return the reference for `field` or `struct.field`, each optionally followed by `:name`.

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
        """Return the column and the type of the field in events of the type `kind`; None if the type has no such field.

        The column is null if the struct around the field is null.
        """
        if self.struct is None:
            return (event[self.field], kind[self.field].dataType) if self.field in kind.names else None
        within = kind[self.struct].dataType if self.struct in kind.names else None
        if not isinstance(within, StructType) or self.field not in within.names:
            return None
        return event[self.struct][self.field], within[self.field].dataType


def event_fields(given: Sequence[str], *, prefix: str, property_name: str) -> list[EventField]:
    """Return the references in a list. Raises ConfigError for a malformed reference."""
    return [EventField.parsed(item, prefix=prefix, property_name=property_name) for item in given if item]


def _struct_of(field: str) -> str | None:
    """Return the struct of a field that is given without one, by Debezium's rule."""
    if field in _OF_EVENT:
        return None
    return "transaction" if field in _OF_TRANSACTION else "source"
