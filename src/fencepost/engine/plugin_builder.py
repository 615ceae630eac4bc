"""Creates and configures the transforms and converters that a configuration names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fencepost.api.errors import ConfigError, RetriableError, describe_error
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.plugin_calls import call_plugin
from fencepost.config.connector_config import PluginSpec, TransformSpec
from fencepost.config.java_properties import refusals
from fencepost.config.plugin_instances import new_plugin
from fencepost.config.plugin_sources import PluginSources
from fencepost.config.plugins import PluginKind, find_plugin
from fencepost.transforms.chain import Step


@dataclass(frozen=True, slots=True)
class PluginBuilder:
    """Creates plugins from the modules that `sources` allow. Methods raise ConfigError that names the property."""

    sources: PluginSources

    def converter(self, spec: PluginSpec, role: str, *, is_key: bool) -> Converter:
        """Return the converter for a role, such as `key.converter`."""
        with _plugin(PluginKind.CONVERTER, role, f"{role}."):
            plugin: Converter = self._made(PluginKind.CONVERTER, spec, role)
            call_plugin(_configure(plugin), plugin.configure, spec.properties, is_key=is_key)
        return plugin

    def header_converter(self, spec: PluginSpec) -> HeaderConverter:
        """Return the header converter."""
        role = "header.converter"
        plugin: HeaderConverter = self._configured(PluginKind.HEADER_CONVERTER, spec, role, f"{role}.")
        return plugin

    def step(self, spec: TransformSpec) -> Step:
        """Return a transform of a chain with its predicate."""
        prefix = f"transforms.{spec.alias}."
        transform = self._configured(PluginKind.TRANSFORMATION, spec.transform, f"{prefix}type", prefix)
        if spec.predicate is None:
            return Step(transform)
        predicate = self._configured(PluginKind.PREDICATE, spec.predicate, f"{prefix}predicate", prefix)
        return Step(transform, predicate, spec.negate)

    def _configured(self, kind: PluginKind, spec: PluginSpec, property_name: str, prefix: str) -> Any:
        with _plugin(kind, property_name, prefix):
            plugin = self._made(kind, spec, property_name)
            call_plugin(_configure(plugin), plugin.configure, spec.properties)
        return plugin

    def _made(self, kind: PluginKind, spec: PluginSpec, property_name: str) -> Any:
        plugin = find_plugin(kind, spec.type, property_name=property_name, sources=self.sources)
        for name, message in refusals(plugin, spec.properties).items():
            raise ConfigError(message, name=name)
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
