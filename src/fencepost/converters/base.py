"""The base class of the built-in converters: one class serves keys, values and headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencepost.api.config_def import ConfigDef
from fencepost.api.plugin import Converter, HeaderConverter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType


class BuiltinConverter(Converter, HeaderConverter):
    """A converter for keys, values and headers. It holds its parsed properties, and is pickled with them."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = self.config().parse({})

    def config(self) -> ConfigDef:
        """Return the definitions of the converter's own properties: none, unless a converter overrides this."""
        return ConfigDef()

    def configure(self, configs: Mapping[str, str], *, is_key: bool = False) -> None:  # noqa: ARG002 - for overriding
        """Set the properties without their prefix. Raises ConfigError."""
        self.settings = self.config().parse(configs)

    def from_connect_header(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return the result of `from_connect_data`."""
        return self.from_connect_data(topic, schema, values)


def describe(schema: DataType | None, values: pa.Array) -> str:
    """Return the name of a column's type, for messages."""
    return str(values.type) if schema is None else schema.simpleString()
