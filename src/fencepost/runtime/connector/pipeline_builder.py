"""Builds the pipeline of a connector's records from its configuration and its worker's."""

from __future__ import annotations

from typing import Final

from fencepost.api.config_def import ConfigValue
from fencepost.api.errors import ConfigError
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.plugin_builder import PluginBuilder

_TOPIC: Final = "topic"


def build_pipeline(worker: WorkerConfig, connector: ConnectorConfig) -> Pipeline:
    """Return the pipeline for a connector's records. Raises ConfigError that names the property."""
    plugins, defaults = PluginBuilder(worker.plugin_sources), worker.properties
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


def pipeline_errors(worker: WorkerConfig, connector: ConnectorConfig) -> list[ConfigValue]:
    """Return the first problem with a connector's converters and transforms, on the property that has it."""
    try:
        build_pipeline(worker, connector)
    except ConfigError as error:
        return [ConfigValue(error.name or "value.converter", errors=[str(error)])]
    return []
