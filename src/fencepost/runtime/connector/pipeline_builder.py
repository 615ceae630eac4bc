"""Finds and configures the transforms and converters in a connector's configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fencepost.api.config_def import ConfigValue
from fencepost.api.errors import ConfigError, RetriableError, describe_error
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.plugin_calls import call_plugin
from fencepost.config.connector_config import ConnectorConfig, PluginSpec, TransformSpec
from fencepost.config.plugin_instances import new_plugin
from fencepost.config.plugins import PluginKind, find_plugin
from fencepost.config.worker_config import WorkerConfig
from fencepost.engine.pipeline import Pipeline
from fencepost.transforms.chain import Step

_TOPIC: Final = "topic"


def build_pipeline(worker: WorkerConfig, connector: ConnectorConfig) -> Pipeline:
    """Return the pipeline for a connector's records. Raises ConfigError that names the property."""
    return Pipeline(
        transforms=tuple(_step(worker, spec) for spec in connector.transforms),
        key_converter=_converter(worker, connector, "key.converter", is_key=True),
        value_converter=_converter(worker, connector, "value.converter", is_key=False),
        header_converter=_header_converter(worker, connector),
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


def _converter(worker: WorkerConfig, connector: ConnectorConfig, role: str, *, is_key: bool) -> Converter:
    spec = connector.converter(role, worker.properties)
    with _plugin(PluginKind.CONVERTER, role, f"{role}."):
        plugin: Converter = _made(worker, PluginKind.CONVERTER, spec, role)
        call_plugin(_configure(plugin), plugin.configure, spec.properties, is_key=is_key)
    return plugin


def _header_converter(worker: WorkerConfig, connector: ConnectorConfig) -> HeaderConverter:
    role = "header.converter"
    spec = connector.converter(role, worker.properties)
    plugin: HeaderConverter = _configured(worker, PluginKind.HEADER_CONVERTER, spec, role, f"{role}.")
    return plugin


def _step(worker: WorkerConfig, spec: TransformSpec) -> Step:
    prefix = f"transforms.{spec.alias}."
    transform = _configured(worker, PluginKind.TRANSFORMATION, spec.transform, f"{prefix}type", prefix)
    if spec.predicate is None:
        return Step(transform)
    predicate = _configured(worker, PluginKind.PREDICATE, spec.predicate, f"{prefix}predicate", prefix)
    return Step(transform, predicate, spec.negate)


def _configured(worker: WorkerConfig, kind: PluginKind, spec: PluginSpec, property_name: str, prefix: str) -> Any:
    with _plugin(kind, property_name, prefix):
        plugin = _made(worker, kind, spec, property_name)
        call_plugin(_configure(plugin), plugin.configure, spec.properties)
    return plugin


def _made(worker: WorkerConfig, kind: PluginKind, spec: PluginSpec, property_name: str) -> Any:
    plugin = find_plugin(kind, spec.type, property_name=property_name, sources=worker.plugin_sources)
    return new_plugin(kind, plugin)


def _configure(plugin: object) -> str:
    return f"configure() of {type(plugin).__name__}"


@contextmanager
def _plugin(kind: PluginKind, property_name: str, prefix: str) -> Iterator[None]:
    """Convert a plugin's error to a ConfigError with the full name of the property; retriable errors are unchanged.

    A plugin's own ConfigError names a property below `prefix`.
    """
    try:
        yield
    except ConfigError as error:
        if error.name == property_name:
            raise
        raise ConfigError(f"{prefix}*: {error}", name=prefix + error.name if error.name else None) from error
    except RetriableError:
        raise
    except Exception as error:
        raise ConfigError(
            f"The {kind.label} that the property {property_name} names cannot be used: {describe_error(error)}",
            name=property_name,
        ) from error
