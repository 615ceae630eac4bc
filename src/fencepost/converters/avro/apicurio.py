"""Apicurio's AvroConverter, where it writes the same as Confluent's: see converters/registry/apicurio.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.registry.apicurio import (
    APICURIO_URL,
    AUTO_REGISTER,
    confluent_properties,
    define_apicurio,
    in_apicurios_words,
)
from fencepost.converters.registry.config import SCHEMA_NAMES

if TYPE_CHECKING:
    from fencepost.converters.avro.schema import AvroOptions


class ApicurioAvroConverter(AvroConverter):
    """Writes Avro with the content id of its schema in four bytes, as Java's converter of Apicurio 3 does by default."""

    url_property: ClassVar[str] = APICURIO_URL
    register_property: ClassVar[str] = AUTO_REGISTER

    def config(self) -> ConfigDef:
        """Return the definitions of Apicurio's properties, and of some of AvroConverter's."""
        confluent = super().config().keys()
        found = define_apicurio(ConfigDef())
        for name in ("connect.meta.data", "enhanced.avro.schema.support", SCHEMA_NAMES):
            key = confluent[name]
            found.define(name, key.type, key.default, key.importance, key.documentation, validator=key.validator)
        return found

    def configure(self, configs: Mapping[str, str], *, is_key: bool | None = None) -> None:
        """Set the properties. Raises ConfigError, also for Java's settings that would change the bytes."""
        given = confluent_properties(self.config().parse(configs), configs)
        try:
            self._set(super().config(), given, is_key=is_key)
        except ConfigError as error:
            raise in_apicurios_words(error) from error

    @property
    def _options(self) -> AvroOptions:
        # If a whole value is bytes, Apicurio's serializer writes their length first; Confluent's does not.
        return replace(super()._options, raw_bytes=False)
