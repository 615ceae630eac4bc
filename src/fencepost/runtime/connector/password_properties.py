"""Determines the properties of a connector's configuration that hold passwords, from its plugins' definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from fencepost.api.config_def import ConfigDef
from fencepost.api.plugin_calls import call_plugin
from fencepost.api.secrets import is_secret_name, secret_values
from fencepost.config.connector_config import plugin_aliases
from fencepost.config.plugins import PluginKind, find_plugin
from fencepost.config.worker_config import WorkerConfig

_ROLES = {
    "connector.class": (PluginKind.CONNECTOR, ""),
    "key.converter": (PluginKind.CONVERTER, "key.converter."),
    "value.converter": (PluginKind.CONVERTER, "value.converter."),
    "header.converter": (PluginKind.HEADER_CONVERTER, "header.converter."),
}
_CHAINS = {"transforms": PluginKind.TRANSFORMATION, "predicates": PluginKind.PREDICATE}


def password_properties(worker: WorkerConfig, config: Mapping[str, str]) -> frozenset[str]:
    """Return the properties that hold passwords.

    The type of a property decides, or its name if no known plugin defines it. May take as long as importing a plugin.
    """
    defined = {name for found in _plugins(config) for name in _names(worker, config, *found)}
    return frozenset(defined | {name for name in config if is_secret_name(name)})


def passwords(worker: WorkerConfig, config: Mapping[str, str]) -> list[str]:
    """Return the values of a configuration that must not be shown."""
    names = password_properties(worker, config)
    return [value for name in names if name in config for value in secret_values(name, config[name])]


def _plugins(config: Mapping[str, str]) -> Iterator[tuple[PluginKind, str, str]]:
    """Yield the kind of each plugin, the property that names it, and the prefix of its own properties."""
    for name, (kind, prefix) in _ROLES.items():
        if name in config:
            yield kind, name, prefix
    for what, kind in _CHAINS.items():
        for alias in _aliases(what, config):
            yield kind, f"{what}.{alias}.type", f"{what}.{alias}."


def _aliases(what: str, config: Mapping[str, str]) -> list[str]:
    try:
        return [alias for alias in plugin_aliases(what, config) if f"{what}.{alias}.type" in config]
    except Exception:  # noqa: BLE001 - the check of the configuration says what is wrong with the list
        return []


def _names(worker: WorkerConfig, config: Mapping[str, str], kind: PluginKind, name: str, prefix: str) -> list[str]:
    try:
        plugin = find_plugin(kind, config[name], property_name=name, sources=worker.plugin_sources)
        return [prefix + password for password in _of_class(plugin)]  # type: ignore[arg-type]  # classes are hashable
    except Exception:  # noqa: BLE001 - the caller that runs the plugin reports its failure; the names suffice here
        return []


@lru_cache(maxsize=256)
def _of_class(plugin: type[Any]) -> tuple[str, ...]:
    keys = call_plugin(f"config() of {plugin.__name__}", lambda: plugin().config().keys())
    return tuple(name for name, key in keys.items() if key.type is ConfigDef.Type.PASSWORD)
