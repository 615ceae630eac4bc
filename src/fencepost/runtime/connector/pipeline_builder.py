"""Builds the pipeline for a connector's records from the connector's and the worker's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from pyspark.sql.types import DataType, StructType

from fencepost.api.config_def import ConfigValue
from fencepost.api.ddl import parse_columns
from fencepost.api.errors import ConfigError
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.plugin_calls import call_plugin
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.plugins import PluginKind, find_plugin, sources_of
from fencepost.config.worker_config import WorkerConfig
from fencepost.converters import ByteArrayConverter, SimpleHeaderConverter
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.plugin_builder import NewPluginMetrics, PluginBuilder
from fencepost.java.connector import JavaConnector
from fencepost.java.pipeline import java_pipeline, python_steps

KnownSchemas = Callable[[], Mapping[str, str]]
"""Returns the columns of the records in each topic, like `SourceConnector.known_schemas`."""

_TOPIC: Final = "topic"


def build_pipeline(
    worker: WorkerConfig, connector: ConnectorConfig, new_metrics: NewPluginMetrics | None = None
) -> Pipeline:
    """Return the pipeline for a connector's records. Raises ConfigError that names the property.

    `new_metrics` creates the object with which a plugin of the pipeline adds metrics.
    """
    plugins, defaults = PluginBuilder(worker.plugin_sources), worker.properties
    if is_java(worker, connector):
        java_pipeline(connector, defaults, worker.plugin_sources)
        return _of_bytes(worker, connector, new_metrics).of_bytes()
    if new_metrics is not None:
        plugins = replace(plugins, new_metrics=new_metrics)
    return Pipeline(
        transforms=tuple(plugins.step(spec) for spec in connector.transforms),
        key_converter=plugins.converter(connector.converter("key.converter", defaults), "key.converter", is_key=True),
        value_converter=plugins.converter(
            connector.converter("value.converter", defaults), "value.converter", is_key=False
        ),
        header_converter=plugins.header_converter(connector.converter("header.converter", defaults)),
        default_topic=connector.properties.get(_TOPIC),
        errors=connector.errors,
    )


def is_java(worker: WorkerConfig, connector: ConnectorConfig) -> bool:
    """Return whether a connector runs in a JVM. Raises ConfigError if its class does not exist."""
    name = connector.connector_class
    found = find_plugin(PluginKind.CONNECTOR, name, property_name="connector.class", sources=worker.plugin_sources)
    return issubclass(found, JavaConnector)


def _of_bytes(worker: WorkerConfig, connector: ConnectorConfig, new_metrics: NewPluginMetrics | None) -> Pipeline:
    """Return the pipeline for records that were converted in a JVM. It has only the transforms that are in Python."""
    plugins = PluginBuilder(sources_of(connector.properties, worker.plugin_sources))
    if new_metrics is not None:
        plugins = replace(plugins, new_metrics=new_metrics)
    return Pipeline(
        transforms=tuple(plugins.step(spec) for spec in python_steps(connector, worker.plugin_sources)),
        key_converter=ByteArrayConverter(),
        value_converter=ByteArrayConverter(),
        header_converter=SimpleHeaderConverter(),
        errors=connector.errors,
    )


def pipeline_errors(
    worker: WorkerConfig, connector: ConnectorConfig, *, known_schemas: KnownSchemas | None
) -> list[ConfigValue]:
    """Return the first problem with a connector's converters and transforms, as an error of its property.

    With `known_schemas`, the services that converters need are asked whether they are available and accept these
    schemas.
    """
    try:
        pipeline = build_pipeline(worker, connector)
        if known_schemas is not None:
            # With transforms, only the records themselves show their final schemas. The known schemas are requested
            # only if needed, because the connector may have to connect to its source for them.
            asks = _asks(pipeline.key_converter) or _asks(pipeline.value_converter)
            known = known_schemas() if asks and not pipeline.transforms else {}
            columns = {topic: parse_columns(ddl) for topic, ddl in known.items()}
            _check("key.converter", pipeline.key_converter, _types(columns, "key"))
            _check("value.converter", pipeline.value_converter, _types(columns, "value"))
            _check("header.converter", pipeline.header_converter, {})
    except ConfigError as error:
        return [ConfigValue(error.name or "value.converter", errors=[str(error)])]
    return []


def _asks(converter: Converter) -> bool:
    """Whether a converter asks a service about schemas."""
    return type(converter).check is not Converter.check


def _types(columns: Mapping[str, StructType], name: str) -> dict[str, DataType | None]:
    return {topic: found[name].dataType for topic, found in columns.items() if name in found.names}


def _check(role: str, converter: Converter | HeaderConverter, schemas: Mapping[str, DataType | None]) -> None:
    try:
        call_plugin(f"check() of {type(converter).__name__}", converter.check, schemas)
    except ConfigError as error:
        raise ConfigError(f"{role}.*: {error}", name=f"{role}.{error.name}" if error.name else role) from error
