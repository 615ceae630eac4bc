"""Makes records from a DataFrame's rows: finds the columns, and the converters for their types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import types as t

from fencepost.api.errors import ConfigError, DataError
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.config.connector_config import PluginSpec
from fencepost.config.plugin_instances import plugin_definitions
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.config.plugins import PluginKind
from fencepost.config.properties import below
from fencepost.config.unknown_properties import unknown_properties
from fencepost.converters import ByteArrayConverter, SimpleHeaderConverter, StringConverter
from fencepost.engine.column_types import ColumnTypes, column_types
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.plugin_builder import PluginBuilder
from fencepost.engine.spark.transform import check_user_types
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.frame.record_columns import SinkColumns

_FRAME: Final = "the DataFrame"
_PLUGINS: Final = PluginBuilder(
    replace(
        ANY_MODULE,
        remedy="Install the package that has it (pip install ...) where the driver and the executors run",
    )
)
_STRUCTURED: Final = (t.StructType, t.ArrayType, t.MapType, t.VariantType)


def record_columns(frame: DataFrame, config: SinkConfig) -> DataFrame:
    """Return the frame with the columns of records. Raises ConfigError for missing columns.

    Raises DataError for a user-defined type whose class would have to be imported.
    """
    check_user_types(frame, where=_FRAME)
    return SinkColumns.of(frame.schema.names, config).frame(frame)


def pipeline_for(schema: t.StructType, config: SinkConfig) -> Pipeline:
    """Return the pipeline for the columns of `record_columns`.

    Raises ConfigError for a plugin that cannot be used, and DataError for a column that has no form in Kafka.
    """
    if not config.transforms:
        _check_readable(schema)
    types = column_types(schema, where=_FRAME)
    if not types.has_topic and config.topic is None:
        raise ConfigError("The DataFrame has no column 'topic': set the option topic", name="topic")
    return Pipeline(
        transforms=tuple(_PLUGINS.step(spec) for spec in config.transforms),
        key_converter=_converter(config, "key", types.key),
        value_converter=_converter(config, "value", types.value),
        header_converter=_header_converter(config, types),
        default_topic=config.topic,
        errors=config.errors,
        given=_FRAME,
    )


def _check_readable(kind: t.DataType, place: str = "") -> None:
    """Raise DataError for intervals of years and months: Spark does not pass them to Python."""
    match kind:
        case t.StructType():
            for field in kind.fields:
                _check_readable(field.dataType, f"{place}.{field.name}" if place else field.name)
        case t.ArrayType():
            _check_readable(kind.elementType, place)
        case t.MapType():
            _check_readable(kind.keyType, place)
            _check_readable(kind.valueType, place)
        case t.YearMonthIntervalType():
            raise DataError(
                f"The column '{place}' of {_FRAME} is {kind.simpleString()}, which Python cannot read: cast it to STRING or "
                "a number"
            )


def _converter(config: SinkConfig, column: str, kind: t.DataType | None) -> Converter:
    role, is_key = f"{column}.converter", column == "key"
    if role in config.properties:
        chosen = _PLUGINS.converter(_spec(config, role), role, is_key=is_key)
        _check_options(PluginKind.CONVERTER, type(chosen), config, role)
        return chosen
    if isinstance(kind, _STRUCTURED):
        raise DataError(
            f"The column '{column}' of {_FRAME} is {kind.simpleString()}: set {role}, for example to JsonConverter, or "
            "make text of it, for example with to_json"
        )
    converter: Converter = ByteArrayConverter() if isinstance(kind, t.BinaryType) else StringConverter()
    converter.configure({}, is_key=is_key)
    return converter


def _header_converter(config: SinkConfig, types: ColumnTypes) -> HeaderConverter:
    role = "header.converter"
    if role in config.properties:
        chosen = _PLUGINS.header_converter(_spec(config, role))
        _check_options(PluginKind.HEADER_CONVERTER, type(chosen), config, role)
        return chosen
    # Bytes in headers are written unchanged, as by Spark's sink: Connect's default converter would write their base64.
    converter: Any = ByteArrayConverter() if isinstance(types.header, t.BinaryType) else SimpleHeaderConverter()
    converter.configure({})
    return converter  # type: ignore[no-any-return]


def _check_options(kind: PluginKind, converter: type[Any], config: SinkConfig, role: str) -> None:
    """Raise ConfigError for a misspelt converter option, which would have no effect."""
    given = below(config.properties, f"{role}.")
    defined = plugin_definitions(kind, converter).keys()
    for name, nearest in unknown_properties(given, defined, only_alike=True).items():
        raise ConfigError(
            f"{role}.{name} is not known to {converter.__name__}: did you mean {role}.{nearest}?", name=f"{role}.{name}"
        )


def _spec(config: SinkConfig, role: str) -> PluginSpec:
    return PluginSpec(config.properties[role], below(config.properties, f"{role}."))
