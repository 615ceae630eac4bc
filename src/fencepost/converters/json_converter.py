"""Connect's JsonConverter, on Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import NullType

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import DataError
from fencepost.config.validators import one_of
from fencepost.converters.base import BuiltinConverter
from fencepost.converters.json_schema import missing_values, schema_text
from fencepost.converters.json_text import JsonRenderer
from fencepost.converters.render import UnsupportedTypeError, in_slices
from fencepost.converters.text import wrap

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_NULL = "null"


class JsonConverter(BuiltinConverter):
    """Writes JSON, with or without an envelope that carries the schema.

    A null without a schema gives a null key or value (a tombstone). A null that has a schema is data: JSON's `null`,
    or an envelope whose schema is optional and whose payload is null.
    """

    def config(self) -> ConfigDef:
        """Return the definitions of this converter's properties in Connect."""
        kind, importance, width = ConfigDef.Type, ConfigDef.Importance, ConfigDef.Width.MEDIUM
        return (
            ConfigDef()
            .define("schemas.enable", kind.BOOLEAN, True, importance.HIGH,
                    'Whether each key or value carries its schema: {"schema": ..., "payload": ...}.',
                    group="Schemas", order_in_group=0, width=width)
            .define("schemas.cache.size", kind.INT, 1000, importance.HIGH,
                    "Accepted for compatibility: a schema is converted once per batch, so no cache of schemas is "
                    "needed.",
                    group="Schemas", order_in_group=1, width=width)
            .define("decimal.format", kind.STRING, "BASE64", importance.LOW,
                    "How decimals are written. BASE64: the bytes of the unscaled value, as Base64. NUMERIC: as "
                    "numbers.",
                    validator=one_of(("base64", "numeric")), group="Serialization", order_in_group=0, width=width)
            .define("replace.null.with.default", kind.BOOLEAN, True, importance.LOW,
                    "Accepted for compatibility: Spark's types carry no default values to replace nulls with.",
                    group="Serialization", order_in_group=1, width=width)
            .define("schema.content", kind.STRING, None, importance.HIGH,
                    "Accepted for compatibility: the schema for JSON without an envelope that a sink reads. Sources "
                    "do not read JSON.",
                    group="Schemas", order_in_group=2, width=width)
        )  # fmt: skip

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return JSON in UTF-8, as `binary` or `large_binary`.

        Raises DataError for a type that Connect does not have, and for a null where the schema allows none.
        """
        schema = None if isinstance(schema, NullType) else schema
        try:
            if schema is not None:
                self._check(schema, values)
            envelope = self._envelope(schema, null=False)
            overhead = sum(len(part) for part in envelope)
            return in_slices(values, overhead, lambda part: self._convert(schema, envelope, part))
        except UnsupportedTypeError as error:
            raise DataError(
                f"JsonConverter cannot write {error.path or 'a record'} of the topic {topic}: JSON has no form for "
                f"its type {error.kind}. Cast it to STRING or a number, or leave it out"
            ) from error
        except DataError as error:
            raise DataError(f"JsonConverter cannot write a record of the topic {topic}. {error}") from error

    @staticmethod
    def _check(schema: DataType, values: pa.Array) -> None:
        schema_text(schema, optional=True)
        for field in missing_values(schema, values):
            raise DataError(f"The field {field} is null, but its schema says that it never is: declare it nullable")

    def _envelope(self, schema: DataType | None, *, null: bool) -> tuple[str, str]:
        if not self.settings["schemas.enable"]:
            return "", ""
        text = _NULL if schema is None else schema_text(schema, optional=null)
        return f'{{"schema":{text},"payload":', "}"

    def _convert(self, schema: DataType | None, envelope: tuple[str, str], values: pa.Array) -> pa.Array:
        renderer = JsonRenderer(numeric_decimals=self.settings["decimal.format"].upper() == "NUMERIC")
        text = renderer.render(values)
        before, after = envelope
        result = wrap(text.body, before + text.prefix, text.suffix + after)
        if result.null_count and schema is not None:
            result = pc.fill_null(result, _NULL.join(self._envelope(schema, null=True)))
        return result.view(pa.binary())
