"""Connect's SimpleHeaderConverter, the default for record headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import DataError
from fencepost.api.plugin import HeaderConverter
from fencepost.converters.binary import base64
from fencepost.converters.connect_text import HeaderRenderer
from fencepost.converters.render import UnsupportedTypeError, in_slices, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType


class SimpleHeaderConverter(HeaderConverter):
    """Writes a header's value as text from which Connect can infer the type; a null stays null.

    Text and numbers are written unchanged, BINARY as base64, structures as `{"a":1,"b":"x"}` and `[1,2]`.
    """

    def config(self) -> ConfigDef:
        """Return no definitions: this converter has no properties."""
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Accept no properties."""

    def from_connect_header(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:  # noqa: ARG002 - the values say their type
        """Return text in UTF-8, as `binary` or `large_binary`. Raises DataError for intervals."""
        try:
            return in_slices(values, 0, _convert)
        except UnsupportedTypeError as error:
            raise DataError(
                f"SimpleHeaderConverter cannot write a header of a record of the topic {topic}: values of type "
                f"{error.kind} have no text. Cast them to STRING or a number"
            ) from error


def _convert(values: pa.Array) -> pa.Array:
    values = plain(values)
    if pt.is_string(values.type):
        text = values
    elif pt.is_binary(values.type):
        text = base64(values)
    else:
        text = HeaderRenderer().render(values).column()
    return text.view(pa.binary())
