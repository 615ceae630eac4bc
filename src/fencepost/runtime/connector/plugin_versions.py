"""Checks that plugins have the versions that configurations request (KIP-891)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fencepost.api.config_def import ConfigValue
from fencepost.api.errors import ConfigError
from fencepost.config.connector_config import plugin_aliases
from fencepost.config.plugin_instances import VERSION
from fencepost.config.plugin_sources import PluginSources
from fencepost.config.plugins import CHAINS, ROLES, find_plugin, plugin_version, sources_of
from fencepost.config.version_range import VersionRange
from fencepost.config.worker_config import WorkerConfig


def version_finding(name: str, config: Mapping[str, Any], installed: str, several: Sequence[str]) -> ConfigValue:
    """Return the version property, with an error if no installed version fits.

    The installed versions are its recommended values, the newest last. `several` has all installed versions, the newest
    first; it is empty if there is only `installed`. `installed` is the newest version that the property allows.
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
    message = (
        f"The property {name} asks for version {asked}, but {_named(several)} installed: remove or change the property"
        if versions.is_comparable
        else f"The property {name} asks for {asked!r}, which is not a version: give {installed}, a range such as "
        f"[{installed},), or latest for any. {_named(several)} installed"
    )
    return [message]


def _named(versions: Sequence[str]) -> str:
    *others, last = versions
    return f"{', '.join(others)} and {last} are" if others else f"{last} is"


def require_converter_versions(worker: WorkerConfig) -> None:
    """Check the converters in the worker's file. Raises ConfigError."""
    _raise_first(_of_roles(worker, worker.plugin_sources, worker.properties), worker.properties)


def require_versions(worker: WorkerConfig, config: Mapping[str, str], connector_version: str) -> None:
    """Check the plugins of a configuration that was accepted before, because other versions may be installed now.

    Raises ConfigError.
    """
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
    """Return the version properties that are set for converters, each with the installed version."""
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
