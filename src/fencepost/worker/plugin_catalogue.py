"""The plugins that a worker lists, and their properties.

A plugin is listed under the Java class that it stands in for, if it has one, since that is what tools know; else under
its Python path. Only registered plugins are listed; a class that is given by its Python path alone is found when a
configuration names it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigKey
from fencepost.config.connector_config import connector_config_def
from fencepost.config.plugins import PluginKind, plugin_entry_points, plugin_version
from fencepost.worker.config_infos import config_key_info
from fencepost.worker.errors import BadRequestError, NotFoundError
from fencepost.worker.herder_interface import ConfigKeyInfo, PluginInfo

_log: Final = logging.getLogger(__name__)

_TYPES: Final = {
    PluginKind.CONNECTOR: "source",
    PluginKind.TRANSFORMATION: "transformation",
    PluginKind.PREDICATE: "predicate",
    PluginKind.CONVERTER: "converter",
    PluginKind.HEADER_CONVERTER: "header_converter",
}
_CONVERTERS: Final = (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER)

# What Connect tells a converter of its role, which tools expect to see.
_CONVERTER_TYPE: Final = ConfigKey(
    "converter.type", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, ConfigDef.Importance.LOW,
    "What the converter is for: key, value or header. The worker sets it.", display_name="converter.type",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A registered plugin: the name it is listed under, and all that it answers to."""

    name: str
    names: frozenset[str]
    kind: PluginKind
    plugin_class: type[Any]
    version: str


class PluginCatalogue:
    """The registered plugins. They are imported when they are first asked for, which takes a second or two."""

    @cached_property
    def plugins(self) -> Sequence[InstalledPlugin]:
        """All plugins that can be imported, by kind and name; the log says why others cannot."""
        found = [plugin for kind in _TYPES for plugin in _installed(kind)]
        return sorted(found, key=lambda plugin: (_TYPES[plugin.kind], plugin.name))

    def infos(self) -> list[PluginInfo]:
        """Return the plugins as they are listed."""
        return [PluginInfo(plugin.name, _TYPES[plugin.kind], plugin.version) for plugin in self.plugins]

    def config(self, name: str, version: str | None = None) -> list[ConfigKeyInfo]:
        """Return the properties of a plugin, given by class or alias.

        Raises NotFoundError, and BadRequestError for a version that is not installed.
        """
        plugin = next((plugin for plugin in self.plugins if name in plugin.names), None)
        if plugin is None:
            raise NotFoundError(
                f"There is no plugin {name!r}: GET /connector-plugins?connectorsOnly=false lists those that there are"
            )
        if version is not None and version != plugin.version:
            raise BadRequestError(
                f"The plugin {name} is installed in version {plugin.version}, not {version!r}: leave the version out"
            )
        return [config_key_info(key) for key in _keys(plugin)]


def _keys(plugin: InstalledPlugin) -> list[ConfigKey]:
    own = plugin.plugin_class().config().keys()
    if plugin.kind in _CONVERTERS:
        return [_CONVERTER_TYPE, *own.values()]
    if plugin.kind is not PluginKind.CONNECTOR:
        return list(own.values())
    common = with_default(connector_config_def(), "connector.plugin.version", plugin.version)
    return [*own.values(), *(key for name, key in common.items() if name not in own)]


def with_default(definitions: ConfigDef, name: str, default: str | None) -> dict[str, ConfigKey]:
    """Return definitions by name, one of them with another default."""
    keys = dict(definitions.keys())
    keys[name] = replace(keys[name], default=default)
    return keys


def _installed(kind: PluginKind) -> Iterator[InstalledPlugin]:
    by_class: dict[str, list[EntryPoint]] = {}
    for entry in plugin_entry_points(kind):
        by_class.setdefault(entry.value, []).append(entry)
    for value, entries in by_class.items():
        path = value.replace(":", ".")
        names = [entry.name for entry in entries]
        try:
            plugin = entries[0].load()
            if not issubclass(plugin, kind.base):
                continue
            version = plugin_version(plugin)
        except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything; the others are listed
            _log.error("The %s %s cannot be used: %s: %s", kind.label, names[0], type(error).__name__, error)
            continue
        listed = next((name for name in names if "." in name), path)
        yield InstalledPlugin(listed, frozenset({*names, path}), kind, plugin, version)
