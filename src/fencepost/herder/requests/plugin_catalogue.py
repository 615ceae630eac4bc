"""The plugins that a worker lists, and their properties.

A plugin that replaces a Java class is listed under the name of this class, because tools know that name. Any other
plugin is listed under its Python path. The list has the registered plugins, the plugins that configurations name by
their Python paths, and the Java plugins in `plugin.path`. If a jar has the Java class that a registered plugin
replaces, the registered plugin is listed under its Python path.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import EntryPoint
from inspect import isabstract
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigKey
from fencepost.api.errors import ConfigError, describe_error
from fencepost.api.plugin_calls import call_plugin
from fencepost.api.source import describe
from fencepost.config.connector_config import connector_config_def
from fencepost.config.java_plugins import CONNECT, JavaClass, JavaPlugin, java_plugins
from fencepost.config.plugin_instances import plugin_definitions
from fencepost.config.plugin_scan import scan, scan_for
from fencepost.config.plugin_sources import ANY_MODULE, PluginSources
from fencepost.config.plugins import (
    CHAINS,
    ROLES,
    PluginKind,
    find_plugin,
    java_class,
    plugin_entry_points,
    plugin_version,
)
from fencepost.config.version_order import newest_first
from fencepost.config.version_range import VersionRange
from fencepost.herder.entities import ConfigKeyInfo, PluginInfo
from fencepost.herder.errors import BadRequestError, NotFoundError
from fencepost.herder.requests.config_infos import config_key_info

_log: Final = logging.getLogger(__name__)

_TYPES: Final = {
    PluginKind.CONNECTOR: "source",
    PluginKind.TRANSFORMATION: "transformation",
    PluginKind.PREDICATE: "predicate",
    PluginKind.CONVERTER: "converter",
    PluginKind.HEADER_CONVERTER: "header_converter",
}
_CONVERTERS: Final = (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER)

_KINDS: Final = {"connector.class": PluginKind.CONNECTOR, **ROLES}
_CHAINED: Final = re.compile(rf"({'|'.join(CHAINS)})\..+\.type")

# Connect's property for the role of a converter. Tools expect it.
_CONVERTER_TYPE: Final = ConfigKey(
    "converter.type", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, ConfigDef.Importance.LOW,
    "The role of the converter: key, value or header. The worker sets it.", display_name="converter.type",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin: the name under which it is listed, and all of its names."""

    name: str
    names: frozenset[str]
    kind: PluginKind
    plugin_class: type[Any]
    version: str


class PluginCatalogue:
    """The plugins of a worker. They are imported at the first request, which takes a second or two."""

    def __init__(
        self,
        sources: PluginSources = ANY_MODULE,
        configs: Callable[[], Iterable[Mapping[str, str | None]]] = lambda: (),
    ) -> None:
        """`configs` returns the configurations of the worker and of connectors, which may name further plugins."""
        self._sources = sources
        self._configs = configs
        # Modules whose import failed. Each failure was logged.
        self._broken: set[str] = set()

    @property
    def plugins(self) -> Sequence[InstalledPlugin]:
        """All importable plugins, by kind and name. Failures of registered plugins are logged."""
        java = list(self._java())
        registered = [_without_java_names(plugin, java) for plugin in self._registered]
        known = {(plugin.kind, name) for plugin in (*registered, *java) for name in plugin.names}
        classes = {(plugin.kind, plugin.plugin_class) for plugin in (*registered, *java)}
        named = {named for config in self._configs() for named in _named_plugins(config)} - known
        found = [plugin for kind, name in named for plugin in _by_path(kind, name, self._sources)]
        found += [plugin for plugin in self._module_plugins() if (plugin.kind, plugin.name) not in named]
        others = [plugin for plugin in found if (plugin.kind, plugin.plugin_class) not in classes]
        return sorted([*java, *registered, *others], key=lambda plugin: (_TYPES[plugin.kind], plugin.name))

    def _module_plugins(self) -> Iterator[InstalledPlugin]:
        """Yield the plugins in plain modules of `plugin.path`. Only modules that contain plugins are imported."""
        for name in scan(self._sources.directories):
            module = name.rpartition(".")[0]
            if module in self._broken or not self._sources.admit(module):
                continue
            try:
                plugin = getattr(
                    call_plugin(f"The import of {module}", importlib.import_module, module), name[len(module) + 1 :]
                )
                kinds = [kind for kind in _TYPES if issubclass(plugin, kind.base) and not isabstract(plugin)]
                installed = [
                    InstalledPlugin(name, frozenset({name}), kind, plugin, plugin_version(plugin)) for kind in kinds
                ]
            except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything; the others are listed
                self._broken.add(module)
                _log.error("The module %s of plugin.path cannot be used: %s", module, describe_error(error))
            else:
                yield from installed

    def _java(self) -> Iterator[InstalledPlugin]:
        """Yield the Java plugins in jars. The JVM is asked only once for the version of each."""
        kinds = {kind.java_base: kind for kind in _TYPES}
        for plugin in java_plugins(self._sources.directories):
            try:
                found = java_class(plugin, self._sources)
                version = plugin_version(found)
            except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything; the others are listed
                broken = f"{plugin.java_class} in {plugin.location}"
                if broken not in self._broken:
                    self._broken.add(broken)
                    _log.error("The Java class %s cannot be used: %s", broken, describe_error(error))
                continue
            yield InstalledPlugin(plugin.java_class, plugin.names, kinds[plugin.base], found, version)

    @cached_property
    def _registered(self) -> Sequence[InstalledPlugin]:
        return [plugin for kind in _TYPES for plugin in _installed(kind)]

    def infos(self) -> list[PluginInfo]:
        """Return the listed plugins."""
        listed = (PluginInfo(plugin.name, _TYPES[plugin.kind], plugin.version) for plugin in self.plugins)
        # Two folders may have the same version of a plugin.
        return list(dict.fromkeys(listed))

    def recommended(self, properties: Iterable[str], connector: JavaPlugin | None) -> dict[str, list[str]]:
        """Return the class names to recommend, by property.

        Only properties that name a part of a pipeline have recommendations.

        If `connector` is a Java connector, its pipeline is in Java: the result has Kafka Connect's own classes and the
        classes in jars.
        """
        asked = {name: kind for name in properties if (kind := _kind_of(name)) is not None}
        kinds = {name: kind for name, kind in asked.items() if kind is not PluginKind.CONNECTOR}
        wanted = set(kinds.values())
        # The page calls this with each typed character. So nothing is imported: a hanging module would block each
        # validation.
        plain = {} if connector else scan_for(self._sources.directories, [kind.base.__name__ for kind in wanted])
        by_kind = {kind: self._recommended(kind, plain.get(kind.base.__name__, ()), connector) for kind in wanted}
        return {name: by_kind[kind] for name, kind in kinds.items()}

    def _recommended(self, kind: PluginKind, plain: Iterable[str], connector: JavaPlugin | None) -> list[str]:
        registered = [plugin for plugin in self._registered if plugin.kind is kind]
        if connector is None:
            others = (name for name in plain if self._sources.admit(name.rpartition(".")[0]))
            return sorted({*(plugin.name for plugin in registered), *others})
        own = {name for plugin in registered for name in plugin.names if name.startswith(CONNECT)}
        jars = [plugin for plugin in java_plugins(self._sources.directories) if plugin.base == kind.java_base]
        return sorted(own | {plugin.java_class for plugin in jars})

    def config(self, name: str, version: str | None = None) -> list[ConfigKeyInfo]:
        """Return the properties of a plugin, given by class or alias, in the newest version that `version` allows.

        Raises NotFoundError, and BadRequestError for a version that is not installed. `version` is a version or a
        range, as in a configuration.
        """
        found = [plugin for plugin in self.plugins if name in plugin.names]
        if not found:
            raise NotFoundError(
                f"There is no plugin {name!r}: GET /connector-plugins?connectorsOnly=false lists the installed ones"
            )
        first = found[0]
        same = [plugin for plugin in found if (plugin.kind, plugin.name) == (first.kind, first.name)]
        return [config_key_info(key) for key in _keys(_of_version(same, name, version))]


def _without_java_names(plugin: InstalledPlugin, java: Iterable[InstalledPlugin]) -> InstalledPlugin:
    """Return a registered plugin, without the names that it shares with a Java plugin."""
    taken = {name for one in java if one.kind is plugin.kind for name in one.names}
    if plugin.names.isdisjoint(taken):
        return plugin
    name = describe(plugin.plugin_class) if plugin.name in taken else plugin.name
    return replace(plugin, name=name, names=plugin.names - taken)


def _of_version(plugins: Sequence[InstalledPlugin], name: str, version: str | None) -> InstalledPlugin:
    """Return the newest plugin that `version` allows. Raises BadRequestError if there is none."""
    try:
        asked = VersionRange.of("version", "latest" if version is None else version)
    except ConfigError as error:
        raise BadRequestError(str(error)) from error
    ordered = newest_first(plugins, lambda plugin: plugin.version)
    found = next((plugin for plugin in ordered if asked.has(plugin.version)), None)
    if found is None:
        installed = ", ".join(plugin.version for plugin in ordered)
        raise BadRequestError(
            f"The plugin {name} is installed in version {installed}, not {version!r}: leave the version out"
        )
    return found


def _keys(plugin: InstalledPlugin) -> list[ConfigKey]:
    own = plugin_definitions(plugin.kind, plugin.plugin_class).keys()
    if plugin.kind in _CONVERTERS and not issubclass(plugin.plugin_class, JavaClass):
        return [_CONVERTER_TYPE, *own.values()]
    if plugin.kind is not PluginKind.CONNECTOR:
        return list(own.values())
    common = with_default(connector_config_def(), "connector.plugin.version", plugin.version)
    return [*own.values(), *(key for name, key in common.items() if name not in own)]


def with_default(definitions: ConfigDef, name: str, default: str | None) -> dict[str, ConfigKey]:
    """Return the definitions by name, with another default for the property `name`."""
    keys = dict(definitions.keys())
    keys[name] = replace(keys[name], default=default)
    return keys


def _named_plugins(config: Mapping[str, str | None]) -> Iterator[tuple[PluginKind, str]]:
    """Yield the kind and the name of each plugin in a configuration, if it can be looked up."""
    for name, value in config.items():
        kind = _kind_of(name)
        if kind is not None and value:
            yield kind, value.strip()


def _kind_of(property_name: str) -> PluginKind | None:
    """Return the kind of the plugin that a property names; None if the property names no plugin."""
    chained = _CHAINED.fullmatch(property_name)
    return _KINDS.get(property_name) if chained is None else CHAINS[chained[1]]


def _in_same_package(name: str, path: str) -> bool:
    """Whether a name is in the same top-level package as a class's path. Tools need not show such a former path."""
    return name.partition(".")[0] == path.partition(".")[0]


def _by_path(kind: PluginKind, name: str, sources: PluginSources) -> Iterator[InstalledPlugin]:
    try:
        plugin = find_plugin(kind, name, property_name=kind.label, sources=sources)
        yield InstalledPlugin(name, frozenset({name}), kind, plugin, plugin_version(plugin))
    except Exception as error:  # noqa: BLE001 - a connector that names it shows the error; the others are listed
        _log.debug("The %s %s cannot be listed: %s", kind.label, name, error)


def _installed(kind: PluginKind) -> Iterator[InstalledPlugin]:
    by_class: dict[str, list[EntryPoint]] = {}
    for entry in plugin_entry_points(kind):
        by_class.setdefault(entry.value, []).append(entry)
    for value, entries in by_class.items():
        path = value.replace(":", ".")
        names = [entry.name for entry in entries]
        try:
            plugin = call_plugin(f"The import of the {kind.label} {names[0]}", entries[0].load)
            if not issubclass(plugin, kind.base):
                continue
            version = plugin_version(plugin)
        except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything; the others are listed
            _log.error("The %s %s cannot be used: %s", kind.label, names[0], describe_error(error))
            continue
        listed = next((name for name in names if "." in name and not _in_same_package(name, path)), path)
        yield InstalledPlugin(listed, frozenset({*names, path}), kind, plugin, version)
