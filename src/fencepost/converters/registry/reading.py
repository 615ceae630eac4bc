"""Reads values of converters with a schema registry, for display and for checks: framing -> schema -> value.

Each schema language has its own reader, which is imported when the first schema of that language is read.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.extras import how_to_install
from fencepost.converters.registry.apicurio import APICURIO_URL, confluent_properties, define_apicurio
from fencepost.converters.registry.client import RegistryClient
from fencepost.converters.registry.config import define_registry
from fencepost.converters.registry.errors import RegistryError
from fencepost.converters.registry.framing import HEADER_MAGIC, HEADER_NAMES, PREFIX_MAGIC, PREFIX_SIZE
from fencepost.converters.registry.references import referred_schemas
from fencepost.converters.registry.schemas import Registered, RegistrySchema
from fencepost.converters.registry.settings import URL, RegistrySettings

Reader = Callable[[bytes], Any]
"""Decodes the bytes after the framing to JSON's types and Decimals. Raises ValueError for bytes that are not valid."""
MakeReader = Callable[[RegistrySchema, bool, Mapping[str, RegistrySchema]], Reader]
"""Makes the reader for a schema.

The second argument says whether dates and times become texts, for people, or stay numbers. The third one has the
schemas that the schema refers to, by name, each after its own references. Raises ValueError for an invalid schema.
"""

_READERS: Final[Mapping[str, str]] = {
    "AVRO": "fencepost.converters.avro.reading:avro_reader",
    "PROTOBUF": "fencepost.converters.protobuf.reading:protobuf_reader",
    "JSON": "fencepost.converters.jsonschema.reading:json_reader",
}
"""For each type of schema, the function that makes its readers."""

_GUID_SIZE: Final = 16


class RegistryReader:
    """Reads values by their schemas in a registry. Each schema is requested only once. Only one thread may use it."""

    def __init__(self, properties: Mapping[str, str], *, for_people: bool = True) -> None:
        """`properties` are the properties of a converter, Confluent's or Apicurio's, without prefix.

        Raises ConfigError.
        """
        if APICURIO_URL in properties:
            properties = confluent_properties(define_apicurio(ConfigDef()).parse(properties), properties)
        values = define_registry(ConfigDef()).parse(properties)
        self._client = RegistryClient(RegistrySettings.of(values, properties))
        self._for_people = for_people
        self._readers: dict[int | bytes, Reader | ValueError] = {}

    def read(self, data: bytes, *, is_key: bool, headers: Mapping[str, bytes | None] | None = None) -> Any:
        """Return the value of a record's key or value.

        Raises ValueError if the bytes name no schema, or do not fit it; and ConfigError and RegistryUnavailableError.
        """
        named = (headers or {}).get(HEADER_NAMES["key" if is_key else "value"])
        if named is not None and len(named) > _GUID_SIZE and named[0] == HEADER_MAGIC:
            return self._reader(named[1 : 1 + _GUID_SIZE])(named[1 + _GUID_SIZE :] + data)
        if not is_framed(data):
            raise ValueError("no id of a schema")
        return self._reader(int.from_bytes(data[1:PREFIX_SIZE], "big"))(data[PREFIX_SIZE:])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _reader(self, name: int | bytes) -> Reader:
        if name not in self._readers:
            try:
                self._readers[name] = self._make(self._asked(name).schema)
            except (RegistryError, ValueError) as error:
                self._readers[name] = ValueError(str(error))
        found = self._readers[name]
        if isinstance(found, ValueError):
            raise found
        return found

    def _asked(self, name: int | bytes) -> Registered:
        return self._client.by_id(name) if isinstance(name, int) else self._client.by_guid(_text(name))

    def _make(self, schema: RegistrySchema) -> Reader:
        if schema.type not in _READERS:
            raise ValueError(f"a schema of type {schema.type}, which is not read here")
        module, _, function = _READERS[schema.type].partition(":")
        make: MakeReader = getattr(importlib.import_module(module), function)
        return make(schema, self._for_people, referred_schemas(self._client, schema))


def names_registry(properties: Mapping[str, str]) -> bool:
    """Whether the properties of a converter, given without prefix, contain the address of a registry."""
    return URL in properties or APICURIO_URL in properties


def is_framed(data: bytes) -> bool:
    """Whether bytes may start with the id of a schema."""
    return len(data) >= PREFIX_SIZE and data[0] == PREFIX_MAGIC


def _text(guid: bytes) -> str:
    digits = guid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def needs(package: str, extra: str) -> ConfigError:
    """Return the error for a missing package, with the extra that installs it."""
    return ConfigError(f"This needs {package}, which is not installed: {how_to_install(extra)}")
