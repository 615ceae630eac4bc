"""Confluent's ProtobufConverter: writes the id of a schema in a registry, and then Protobuf, from Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError, describe_error
from fencepost.config.validators import one_of
from fencepost.converters.columnar.pieces import constant
from fencepost.converters.protobuf.numbers import EarlierNumbers
from fencepost.converters.protobuf.parser import parsed_file, parsed_text
from fencepost.converters.protobuf.plan import plan
from fencepost.converters.protobuf.schema import ProtobufOptions, ProtoMessage, proto_file, schema_text
from fencepost.converters.protobuf.steps import encoded
from fencepost.converters.registry.base import Derived, Plan, RegistryConverter
from fencepost.converters.registry.client import RegistryClient
from fencepost.converters.registry.config import SCHEMA_NAMES
from fencepost.converters.registry.errors import RegistryError
from fencepost.converters.registry.registry import CONTENT
from fencepost.converters.registry.schema_names import schema_in_topic
from fencepost.converters.registry.schemas import RegistrySchema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

FIELD_NUMBERS: Final = "fencepost.protobuf.field.numbers"

_BLOCK: Final = 8192
"""The number of rows that are written together: their bytes fit the processor's cache."""


class ProtobufConverter(RegistryConverter):
    """Writes Protobuf with the id of its schema, as Java's converter of this name does.

    A null stays a null key or value. Whole values that are not structs are written as Google's wrapper messages.
    """

    language: ClassVar[str] = "PROTOBUF"

    def config(self) -> ConfigDef:
        """Return the definitions of the registry's and ProtobufData's properties."""
        kind, low = ConfigDef.Type.BOOLEAN, ConfigDef.Importance.LOW
        return (
            super().config()
            .define("scrub.invalid.names", kind, False, low,
                    "Whether characters in names that Protobuf does not allow are replaced. If false, such names are "
                    "refused.")
            .define("optional.for.nullables", kind, False, ConfigDef.Importance.MEDIUM,
                    "Whether fields that may be null are declared `optional`. If false, a null is not written, and "
                    "readers see 0, false or an empty string.")
            .define("wrapper.for.nullables", kind, False, low,
                    "Whether fields that may be null are declared as wrapper messages, such as "
                    "google.protobuf.Int32Value.")
            .define("skip.known.types", kind, True, low,
                    "Only true is supported: schemas refer to the well-known types of Google and Confluent, which are "
                    "not registered.",
                    validator=_only_true)
            .define(FIELD_NUMBERS, ConfigDef.Type.STRING, "position", ConfigDef.Importance.MEDIUM,
                    "How fields are numbered in schemas that the converter registers. position: in their order, as in "
                    "Java; if a column is dropped or inserted, the numbers of later fields change. names: a field "
                    "keeps the number that its name had in any version of the subject. Java's converter does not have "
                    "this property.",
                    validator=one_of(("position", "names")))
        )  # fmt: skip

    def derive(self, topic: str, schema: DataType | None) -> Derived:
        """Return Protobuf's schema for a Spark type."""
        found = proto_file(
            schema_in_topic(schema, topic, self.role, self.settings[SCHEMA_NAMES], all_maps=True), self._options
        )
        return Derived(RegistrySchema(schema_text(found), self.language), found.full_name, "message", found)

    def to_register(self, derived: Derived, subject: str, client: RegistryClient) -> Derived:
        """Return the schema with the field numbers of earlier versions, unless numbers follow the fields' positions."""
        if self.settings[FIELD_NUMBERS] == "position":
            return derived
        try:
            versions = [parsed_text(found.schema.text) for found in client.versions(subject)]
        except DataError as error:
            raise RegistryError(
                f"The numbers of fields cannot follow the schemas of subject {subject}: {describe_error(error)}. Set "
                f"{FIELD_NUMBERS}=position, or another subject"
            ) from error
        numbered = EarlierNumbers.of(versions).applied(derived.connect)
        return replace(derived, schema=RegistrySchema(schema_text(numbered), self.language), connect=numbered)

    def plan(
        self, derived: Derived, written: RegistrySchema, referred: Mapping[str, RegistrySchema], *, strict: bool
    ) -> Plan:
        """Return the steps that write values of the derived schema, and the index of their message."""
        own = written.text == derived.schema.text
        imported = [part.text for part in referred.values()]
        steps, index = plan(
            derived.connect, derived.connect if own else parsed_file(written.text, imported), strict=strict
        )
        return Plan(steps, message_indexes([index]))

    def encode(self, steps: Any, prefix: bytes, values: pa.Array) -> pa.Array:
        """Return Protobuf's wire format."""
        parts = [_encoded(steps, prefix, values.slice(start, _BLOCK)) for start in range(0, len(values), _BLOCK)]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    @property
    def _options(self) -> ProtobufOptions:
        settings = self.settings
        return ProtobufOptions(
            scrub=settings["scrub.invalid.names"],
            optional=settings["optional.for.nullables"],
            wrappers=settings["wrapper.for.nullables"],
        )


def _only_true(name: str, value: Any) -> None:
    if not value:
        raise ConfigError(f"{name}=false is not supported: known types are not registered. Remove it", name=name)


def message_indexes(path: Sequence[int]) -> bytes:
    """Encode the path of a record's message in its file: first the length of the path, then its indexes.

    All numbers are zigzag varints. The path [0] is shortened to a single 0.
    """
    if list(path) == [0]:
        return b"\0"
    return b"".join(_zigzag(number) for number in (len(path), *path))


def _zigzag(number: int) -> bytes:
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def _encoded(steps: Any, prefix: bytes, values: pa.Array) -> pa.Array:
    nulls = np.asarray(values.is_null()) if values.null_count else None
    rows = None if nulls is None else ~nulls
    before = [constant(prefix, len(values), rows)] if prefix else []
    return encoded(steps, values, rows, before).as_binary(nulls)


def _content(schema: RegistrySchema) -> object:
    """Return the part of a schema that determines how readers read its data: messages, fields and numbers."""
    try:
        file = parsed_file(schema.text)
    except DataError:
        return schema.text
    return file.package, tuple(_parts(message) for message in file.messages)


def _parts(message: ProtoMessage) -> object:
    return message.name, tuple(
        (part.name, part.number, part.label, part.type if part.message is None else _parts(part.message))
        for part in message.fields
    )


CONTENT[ProtobufConverter.language] = _content
