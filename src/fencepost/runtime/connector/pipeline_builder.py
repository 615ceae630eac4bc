"""Builds the pipeline of a connector's records from its configuration and its worker's."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fencepost.api.config_def import ConfigValue
from fencepost.api.errors import ConfigError
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.plugin_calls import call_plugin
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.plugin_builder import NewPluginMetrics, PluginBuilder

_TOPIC: Final = "topic"


def build_pipeline(
    worker: WorkerConfig, connector: ConnectorConfig, new_metrics: NewPluginMetrics | None = None
) -> Pipeline:
    """Return the pipeline for a connector's records, with `new_metrics` of its task. Raises ConfigError that names the property."""
    plugins, defaults = PluginBuilder(worker.plugin_sources), worker.properties
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


def pipeline_errors(worker: WorkerConfig, connector: ConnectorConfig, *, ask: bool = False) -> list[ConfigValue]:
    """Return the first problem with a connector's converters and transforms, on the property that has it.

    With `ask`, the services that converters need are asked whether they are there.
    """
    try:
        pipeline = build_pipeline(worker, connector)
        if ask:
            for role, converter in (
                ("key.converter", pipeline.key_converter),
                ("value.converter", pipeline.value_converter),
                ("header.converter", pipeline.header_converter),
            ):
                _check(role, converter)
    except ConfigError as error:
        return [ConfigValue(error.name or "value.converter", errors=[str(error)])]
    return []


def _check(role: str, converter: Converter | HeaderConverter) -> None:
    try:
        call_plugin(f"check() of {type(converter).__name__}", converter.check)
    except ConfigError as error:
        raise ConfigError(f"{role}.*: {error}", name=f"{role}.{error.name}" if error.name else role) from error
