"""Connect's StringConverter, on Arrow columns."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.types as pt

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.converters.base import BuiltinConverter, describe
from fencepost.converters.connect_text import JavaRenderer
from fencepost.converters.render import UnsupportedTypeError, in_slices

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_ENCODING = "converter.encoding"
_AS_IN_JAVA: Final = {"utf-16": (codecs.BOM_UTF16_BE, "utf-16-be"), "utf-32": (b"", "utf-32-be")}
"""For encodings without a fixed byte order: the byte order mark that Java writes first, and the codec for the rest."""


class StringConverter(BuiltinConverter):
    """Writes text unchanged, other values as Java's `toString` does; a null stays null.

    Schemaless structures are already JSON text and stay unchanged.
    """

    def config(self) -> ConfigDef:
        """Return the definition of the encoding."""
        return ConfigDef().define(
            _ENCODING,
            ConfigDef.Type.STRING,
            "UTF-8",
            ConfigDef.Importance.HIGH,
            "The encoding in which text is written, such as UTF-8 or ISO-8859-1.",
        )

    def configure(self, configs: Mapping[str, str], *, is_key: bool = False) -> None:
        """Set the properties. Raises ConfigError for an unknown encoding."""
        super().configure(configs, is_key=is_key)
        encoding = self.settings[_ENCODING]
        try:
            # Some of Python's codecs, such as hex, cannot encode text.
            "".encode(encoding)
        except LookupError:
            raise ConfigError(
                f"There is no encoding {encoding!r} for the property {_ENCODING}: use UTF-8, or another name that "
                "Python's codecs know",
                name=_ENCODING,
            ) from None

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return encoded text, as `binary` or `large_binary`. Raises DataError for BINARY and for intervals."""
        if pt.is_large_string(values.type):
            return self._encoded(values.view(pa.large_binary()))
        try:
            return in_slices(values, 0, self._convert)
        except UnsupportedTypeError as error:
            raise DataError(
                f"StringConverter cannot write a record of the topic {topic}: {describe(schema, values)} has values of "
                f"type {error.kind}, which have no text. Use ByteArrayConverter for BINARY, JsonConverter for BINARY "
                "within structures, or cast them to STRING"
            ) from error

    def _convert(self, values: pa.Array) -> pa.Array:
        return self._encoded(JavaRenderer().render(values).column().view(pa.binary()))

    def _encoded(self, utf8: pa.Array) -> pa.Array:
        name = codecs.lookup(self.settings[_ENCODING]).name
        if name == "utf-8":
            return utf8
        mark, encoding = _AS_IN_JAVA.get(name, (b"", name))
        # Nearly all text is sent in UTF-8; values in other encodings are converted one by one.
        encoded = [mark + text.decode().encode(encoding, "replace") if text else text for text in utf8.to_pylist()]
        return pa.array(encoded, utf8.type)
