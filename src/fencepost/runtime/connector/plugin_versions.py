"""Checks that plugins have the versions that configurations ask for (KIP-891)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fencepost.api.config_def import ConfigValue
from fencepost.api.errors import ConfigError
from fencepost.config.connector_config import plugin_aliases
from fencepost.config.plugin_instances import VERSION
from fencepost.config.plugin_sources import PluginSources
from fencepost.config.plugins import PluginKind, find_plugin, plugin_version, sources_of
from fencepost.config.version_range import VersionRange
from fencepost.config.worker_config import WorkerConfig

ROLES: Final[Mapping[str, PluginKind]] = {
    "key.converter": PluginKind.CONVERTER,
    "value.converter": PluginKind.CONVERTER,
    "header.converter": PluginKind.HEADER_CONVERTER,
}
CHAINS: Final[Mapping[str, PluginKind]] = {
    "transforms": PluginKind.TRANSFORMATION,
    "predicates": PluginKind.PREDICATE,
}


def version_finding(name: str, config: Mapping[str, Any], installed: str, several: Sequence[str] = ()) -> ConfigValue:
    """Return the property with the installed versions, the newest last, and its error if it asks for none of them.

    If `several` are installed, the newest first, `installed` is the newest that the property allows, if any.
    """
    versions = several or [installed]
    return ConfigValue(name, config.get(name), [*reversed(versions)], _errors(name, config, installed, versions))


def _errors(name: str, config: Mapping[str, Any], installed: str, several: Sequence[str]) -> list[str]:
    asked = config.get(name)
    if asked is None:
        return []
    try:
        versions = VersionRange.of(name, asked)
    except ConfigError as error:
        return [str(error)]
    if versions.has(installed):
        return []
    told = (
        f"The property {name} asks for version {asked}, but {_named(several)} installed: remove or change the property"
        if versions.is_comparable
        else f"The property {name} asks for {asked!r}, which is not a version: give {installed}, a range such as "
        f"[{installed},), or latest for any. {_named(several)} installed"
    )
    return [told]


def _named(versions: Sequence[str]) -> str:
    *others, last = versions
    return f"{', '.join(others)} and {last} are" if others else f"{last} is"


def require_converter_versions(worker: WorkerConfig) -> None:
    """Check the converters in the worker's file. Raises ConfigError."""
    _raise_first(_of_roles(worker, worker.plugin_sources, worker.properties), worker.properties)


def require_versions(worker: WorkerConfig, config: Mapping[str, str], connector_version: str) -> None:
    """Check the plugins of a configuration that was accepted: another version may be installed since. Raises ConfigError."""
    sources = sources_of(config, worker.plugin_sources)

    def plugins() -> Iterator[tuple[str, str]]:
        yield f"connector.{VERSION}", connector_version
        yield from _of_roles(worker, sources, config)
        for what, kind in CHAINS.items():
            for alias in plugin_aliases(what, config):
                name, given = f"{what}.{alias}.{VERSION}", f"{what}.{alias}.type"
                if name in config:
                    plugin = find_plugin(
                        kind, config[given], property_name=given, sources=sources, version=config[name]
                    )
                    yield name, plugin_version(plugin)

    _raise_first(plugins(), config)


def _of_roles(worker: WorkerConfig, sources: PluginSources, config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The version properties of converters that are set, each with the installed version."""
    for role, kind in ROLES.items():
        name = f"{role}.{VERSION}"
        if name in config:
            given = config.get(role, worker.properties[role])
            found = find_plugin(kind, given, property_name=role, sources=sources, version=config[name])
            yield name, plugin_version(found)


def _raise_first(plugins: Iterator[tuple[str, str]], config: Mapping[str, str]) -> None:
    for name, installed in plugins:
        for wrong in _errors(name, config, installed, [installed]):
            raise ConfigError(wrong, name=name)
