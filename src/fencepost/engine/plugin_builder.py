"""Creates and configures the transforms and converters that a configuration names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fencepost.api.errors import ConfigError, RetriableError, describe_error
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.plugin_calls import call_plugin
from fencepost.api.plugin_metrics import Monitorable, PluginMetrics
from fencepost.config.connector_config import PluginSpec, TransformSpec
from fencepost.config.java_properties import refusals
from fencepost.config.plugin_instances import VERSION, new_plugin
from fencepost.config.plugin_sources import PluginSources
from fencepost.config.plugins import PluginKind, find_plugin
from fencepost.engine.plugin_counts import DetachedMetrics
from fencepost.transforms.chain import Step

NewPluginMetrics = Callable[[Mapping[str, str]], PluginMetrics]
"""Returns the object with which a plugin adds metrics. Its argument contains labels besides connector and task."""


def _shown_nowhere(labels: Mapping[str, str]) -> PluginMetrics:
    del labels
    return DetachedMetrics()


@dataclass(frozen=True, slots=True)
class PluginBuilder:
    """Creates plugins from the modules that `sources` allow. Its methods raise ConfigError that names the property.

    `new_metrics` creates the metrics of plugins that are Monitorable. By default these metrics are not shown.
    """

    sources: PluginSources
    new_metrics: NewPluginMetrics = _shown_nowhere

    def converter(self, spec: PluginSpec, role: str, *, is_key: bool) -> Converter:
        """Return the converter for a role. The role is the name of a property, such as `key.converter`."""
        with _plugin(PluginKind.CONVERTER, role, f"{role}."):
            plugin: Converter = self._made(PluginKind.CONVERTER, spec, role)
            call_plugin(_configure(plugin), plugin.configure, spec.properties, is_key=is_key)
            self._add_metrics(plugin, {"converter": "key" if is_key else "value"})
        return plugin

    def header_converter(self, spec: PluginSpec) -> HeaderConverter:
        """Return the header converter."""
        role = "header.converter"
        plugin: HeaderConverter = self._configured(
            PluginKind.HEADER_CONVERTER, spec, role, f"{role}.", {"converter": "header"}
        )
        return plugin

    def step(self, spec: TransformSpec) -> Step:
        """Return a step of a chain: a transform with its predicate."""
        prefix = f"transforms.{spec.alias}."
        labels = {"transformation": spec.alias}
        transform = self._configured(PluginKind.TRANSFORMATION, spec.transform, f"{prefix}type", prefix, labels)
        if spec.predicate is None:
            return Step(transform, alias=spec.alias)
        # If several transforms name the same predicate, each transform has its own instance of the predicate.
        labels["predicate"] = spec.predicate_alias
        predicate = self._configured(PluginKind.PREDICATE, spec.predicate, f"{prefix}predicate", prefix, labels)
        return Step(transform, predicate, spec.negate, spec.alias)

    def _configured(
        self, kind: PluginKind, spec: PluginSpec, property_name: str, prefix: str, labels: Mapping[str, str]
    ) -> Any:
        with _plugin(kind, property_name, prefix):
            plugin = self._made(kind, spec, property_name)
            call_plugin(_configure(plugin), plugin.configure, spec.properties)
            self._add_metrics(plugin, labels)
        return plugin

    def _add_metrics(self, plugin: object, labels: Mapping[str, str]) -> None:
        if isinstance(plugin, Monitorable):
            what = f"with_plugin_metrics() of {type(plugin).__name__}"
            call_plugin(what, plugin.with_plugin_metrics, self.new_metrics(labels))

    def _made(self, kind: PluginKind, spec: PluginSpec, property_name: str) -> Any:
        version = spec.properties.get(VERSION)
        plugin = find_plugin(kind, spec.type, property_name=property_name, sources=self.sources, version=version)
        for name, message in refusals(plugin, spec.properties).items():
            raise ConfigError(message, name=name)
        return new_plugin(kind, plugin)


def _configure(plugin: object) -> str:
    return f"configure() of {type(plugin).__name__}"


@contextmanager
def _plugin(kind: PluginKind, property_name: str, prefix: str) -> Iterator[None]:
    """Within this context, convert a plugin's error to a ConfigError with the full name of the property.

    Retriable errors stay unchanged.

    A plugin's own ConfigError names a property without `prefix`, which is added.
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
