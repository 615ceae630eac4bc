"""Finds plugins (connectors, converters, transforms and others) by their names in configurations.

A name is one of three things, tried in this order:

1. a Java connector in a jar of `plugin.path` (see java_plugins), by its class or alias. The owner put it there, so it
   wins over a Python plugin with the same name.
2. an entry point of the plugin's group. Its name is an alias (`JsonConverter`) or the name of the Java class that
   the plugin replaces (`org.apache.kafka.connect.json.JsonConverter`); a package registers both alike, in its
   pyproject.toml: `[project.entry-points."fencepost.converters"]`.
3. a dotted Python path, `package.module.Class`. A worker's PluginSources limit the modules that are imported.

`java:` before the name of a connector allows only the first, `fencepost:` only the other two. Only the requested plugin
is imported.

Transforms, predicates and converters of a Java connector run in its JVM (see `sources_of`). Their names stand for Kafka
Connect's own classes, or for classes in jars of `plugin.path`; the connector's own folder comes first.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from fencepost.api.config_provider import ConfigProvider
from fencepost.api.errors import ConfigError, describe_error
from fencepost.api.plugin import Converter, HeaderConverter, Predicate, Transformation
from fencepost.api.plugin_calls import call_plugin
from fencepost.api.source import SourceConnector
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.entry_points import CONNECTORS, forget_entry_points, registered
from fencepost.config.java_plugins import (
    CONNECT,
    CONVERTER,
    HEADER_CONVERTER,
    JAVA,
    OF_CONNECT,
    PREDICATE,
    SOURCE_CONNECTOR,
    TRANSFORMATION,
    JavaClass,
    JavaPlugin,
    find_beside,
    find_java_connectors,
    forget_plugins,
    java_connectors,
    java_plugins,
)
from fencepost.config.java_versions import choose, with_versions
from fencepost.config.missing_plugins import (
    OTHER_DATA,
    advice,
    ending,
    is_sink,
    jars_advice,
    looks_java,
    not_in_module,
    sink_error,
)
from fencepost.config.plugin_scan import scan
from fencepost.config.plugin_sources import ALLOWED_MODULES, PluginSources, forget_sources, is_below_plain_module

_log: Final = logging.getLogger(__name__)
_OURS: Final = "fencepost:"
_ADAPTERS: Final = "fencepost.java"
"""The group of the entry point whose function makes a Python class for a Java plugin: see fencepost.java."""


class PluginKind(Enum):
    """The kinds of plugins.

    Each kind has a name for messages, an entry point group, and base classes in Python and in Java.
    """

    CONNECTOR = ("connector", CONNECTORS, SourceConnector, SOURCE_CONNECTOR)
    CONVERTER = ("converter", "fencepost.converters", Converter, CONVERTER)
    HEADER_CONVERTER = ("header converter", "fencepost.converters", HeaderConverter, HEADER_CONVERTER)
    TRANSFORMATION = ("transform", "fencepost.transforms", Transformation, TRANSFORMATION)
    PREDICATE = ("predicate", "fencepost.predicates", Predicate, PREDICATE)
    CONFIG_PROVIDER = ("config provider", "fencepost.config_providers", ConfigProvider, None)

    def __init__(self, label: str, group: str, base: type[Any], java_base: str | None) -> None:
        self.label = label
        self.group = group
        self.base = base
        self.java_base = java_base


ROLES: Final[Mapping[str, PluginKind]] = {
    "key.converter": PluginKind.CONVERTER,
    "value.converter": PluginKind.CONVERTER,
    "header.converter": PluginKind.HEADER_CONVERTER,
}
"""The properties that name converters, each with the kind of converter."""

CHAINS: Final[Mapping[str, PluginKind]] = {
    "transforms": PluginKind.TRANSFORMATION,
    "predicates": PluginKind.PREDICATE,
}
"""The properties that list aliases of plugins, each with the kind of plugin."""


def find_plugin(
    kind: PluginKind, name: str, *, property_name: str, sources: PluginSources, version: str | None = None
) -> type[Any]:
    """Return the class of a plugin. If several folders have a Java class, `version` chooses one: see `java_versions`.

    Raises ConfigError, which blames `property_name`, if the plugin does not exist (with a list of the installed ones),
    if `sources` do not include its module, if its import fails, or if it is of another kind.
    """
    name = name.strip()
    if kind is PluginKind.CONNECTOR:
        java = _java_connector(name, version, sources)
        if java is not None:
            return java_class(java, sources)
        if name.startswith(JAVA):
            raise _no_java(name, property_name, sources)
        name = name.removeprefix(_OURS)
    elif sources.connector is not None:
        java = _in_jvm(kind, name, property_name, sources, sources.connector, version=version)
        if java is not None:
            return java_class(java, sources)
        name = name.removeprefix(_OURS)
    found = registered(kind.group).get(name)
    if found and kind is PluginKind.CONNECTOR and sources.directories and looks_java(name):
        _log_built_in(name, found.value)
    plugin = _load(kind, found, property_name) if found else _import(kind, name, property_name, sources)
    if not (isinstance(plugin, type) and issubclass(plugin, kind.base)):
        raise ConfigError(
            f"{name}, given by the property {property_name}, is not a {kind.label}: it must be a class that derives from "
            f"{kind.base.__module__}.{kind.base.__qualname__}",
            name=property_name,
        )
    return plugin


def sources_of(config: Mapping[str, str], sources: PluginSources) -> PluginSources:
    """Return the sources for the plugins of a connector's pipeline. Raises the errors of `find_java_connectors`."""
    name = config.get("connector.class", "").strip()
    return replace(sources, connector=_java_connector(name, config.get("connector.plugin.version"), sources))


def installed_versions(kind: PluginKind, name: str, sources: PluginSources) -> list[str]:
    """Return the versions of a Java plugin in `plugin.path`, the newest first; none if the plugin is not there.

    Raises ConfigError for a name that stands for several classes.
    """
    plain = name.strip().removeprefix(JAVA)
    if kind is PluginKind.CONNECTOR:
        found = find_java_connectors(sources.directories, plain)
    elif sources.connector is None or plain.startswith(_OURS):
        return []
    else:
        found = _candidates(kind, plain, sources, sources.connector)
    return list(dict.fromkeys(version for _, version in with_versions(found, partial(_version_of, sources))))


def _java_connector(name: str, version: str | None, sources: PluginSources) -> JavaPlugin | None:
    found = find_java_connectors(sources.directories, name.removeprefix(JAVA))
    return choose(found, version, partial(_version_of, sources))


def _version_of(sources: PluginSources, plugin: JavaPlugin) -> str:
    return plugin_version(java_class(plugin, sources))


def java_class(plugin: JavaPlugin, sources: PluginSources) -> type[Any]:
    """Return the Python class for a Java plugin: always the same one for the same plugin and settings."""
    (adapter,) = registered(_ADAPTERS).values()
    made: type[Any] = adapter.load()(plugin, sources.java)
    return made


def plugin_entry_points(kind: PluginKind) -> Sequence[EntryPoint]:
    """All registered plugins of a group, in the order of their names, not yet imported.

    Converters and header converters share a group.
    """
    return sorted(registered(kind.group).values(), key=lambda entry: entry.name)


def plugin_version(plugin: type[Any]) -> str:
    """Return a plugin's version: its own, else its package's, else "undefined"."""
    if issubclass(plugin, SourceConnector):
        return ConnectorInstance.of(plugin).version()
    if issubclass(plugin, JavaClass):
        return plugin.java_version()
    return _package_version(plugin.__module__.partition(".")[0])


def use_plugin_path(plugin_path: str) -> list[Path]:
    """Put the directories of a `plugin.path`, separated by commas, at the end of the import path and return them.

    Other Python processes that load plugins, such as Spark's workers, need these directories in their PYTHONPATH.
    Directories that are missing, and Java archives, are left out with a warning.
    """
    named = [Path(part.strip()).expanduser().resolve() for part in plugin_path.split(",") if part.strip()]
    directories = [directory for directory in named if directory.is_dir()]
    for missing in named:
        if missing not in directories:
            _warn_of_missing(missing)
    sys.path += [str(directory) for directory in directories if str(directory) not in sys.path]
    importlib.invalidate_caches()
    forget_entry_points()
    forget_plugins()
    forget_sources()
    return directories


@lru_cache(maxsize=256)
def _warn_of_missing(directory: Path) -> None:
    """Warn only once: a worker reads its path before its configuration, and again when it starts."""
    _log.warning(
        "The property plugin.path names %s, which is not a directory: it has no plugins for fencepost", directory
    )


@lru_cache(maxsize=256)
def _log_built_in(name: str, python_path: str) -> None:
    """Log once that a Java class name means the Python class: the user may have put a jar in the wrong place."""
    _log.info("The connector %s is the one in Python here, %s: no jar in plugin.path has the class", name, python_path)


@lru_cache(maxsize=256)
def _package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "undefined"


def _in_jvm(
    kind: PluginKind,
    name: str,
    property_name: str,
    sources: PluginSources,
    connector: JavaPlugin,
    *,
    version: str | None,
) -> JavaPlugin | None:
    """Return the Java plugin that a name stands for in the pipeline of a Java connector.

    Returns None for a transform in Python. Raises ConfigError for any other plugin that is not in Java.
    """
    forced = name.startswith(_OURS)
    if not forced and kind.java_base is not None:
        plain = name.removeprefix(JAVA)
        try:
            found = _candidates(kind, plain, sources, connector)
        except ConfigError as error:
            raise ConfigError(str(error), name=property_name) from error
        if found:
            own = [plugin for plugin in found if plugin.location == connector.location]
            return choose(own if own and version is None else found, version, partial(_version_of, sources))
        if name.startswith(JAVA):
            raise _not_in_jvm(kind, name, property_name, sources, connector, why="no jar in plugin.path has it")
    if kind is PluginKind.TRANSFORMATION or (forced and kind is PluginKind.PREDICATE):
        return None
    in_python = forced or name in registered(kind.group)
    why = "which is in Python here, for connectors in Python" if in_python else "which no jar in plugin.path has"
    raise _not_in_jvm(kind, name, property_name, sources, connector, why=why)


def _candidates(kind: PluginKind, name: str, sources: PluginSources, connector: JavaPlugin) -> tuple[JavaPlugin, ...]:
    """Return the Java plugins that a name may mean in a connector's pipeline: Connect's own, else plugins in jars."""
    if kind.java_base is None:
        return ()
    own = _of_connect(kind, name)
    return find_beside(connector, kind.java_base, sources.directories, name) if own is None else (own,)


def _of_connect(kind: PluginKind, name: str) -> JavaPlugin | None:
    """Return Kafka Connect's own plugin of this name, which all JVMs have. Its Java name is registered here."""
    entries = registered(kind.group)
    alias = entries.get(name) if "." not in name else None
    for entry in entries.values():
        # A worker's default converter may be given by its Python path.
        path = entry.value.replace(":", ".") if kind is not PluginKind.TRANSFORMATION else None
        is_it = name in (entry.name, path) or (alias is not None and alias.value == entry.value)
        if entry.name.startswith(CONNECT) and is_it:
            return JavaPlugin(entry.name, OF_CONNECT, (), kind.java_base or "")
    return None


def _not_in_jvm(
    kind: PluginKind, name: str, property_name: str, sources: PluginSources, connector: JavaPlugin, *, why: str
) -> ConfigError:
    own = [entry.name for entry in plugin_entry_points(kind) if entry.name.startswith(CONNECT)]
    return ConfigError(
        f"{connector.java_class} is a Java connector, whose {kind.label}s run in its JVM, and the property {property_name} "
        f"names {name}, {why}{ending(name.removeprefix(JAVA), [*own, *_in_jars(kind, sources)])} {jars_advice(kind.label)}, "
        f"or set {property_name} of the connector to one of Kafka Connect's own: {', '.join(own)}",
        name=property_name,
    )


def _load(kind: PluginKind, entry: EntryPoint, property_name: str) -> Any:
    try:
        return call_plugin(f"The import of the {kind.label} {entry.name}", entry.load)
    except Exception as error:
        raise _failed(kind, entry.name, property_name, error) from error


def _import(kind: PluginKind, name: str, property_name: str, sources: PluginSources) -> Any:
    module_name, _, class_name = name.rpartition(".")
    if not module_name or not all(part.isidentifier() for part in name.split(".")):
        raise _unknown(kind, name, property_name, sources)
    if name in OTHER_DATA:
        raise _unknown(kind, name, property_name, sources)
    if not sources.admit(module_name):
        if looks_java(name) and is_below_plain_module(module_name):
            raise _unknown(kind, name, property_name, sources)
        raise ConfigError(
            f"The {kind.label} {name}, given by the property {property_name}, is not imported: the module {module_name} "
            "is neither in a directory of plugin.path nor in an installed package that declares plugins of fencepost. "
            f"Register the class under the entry points {kind.group} of its package, or move the module to a directory "
            f"of plugin.path, or add it to {ALLOWED_MODULES} of each worker",
            name=property_name,
        )
    try:
        module = call_plugin(f"The import of {module_name}", importlib.import_module, module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise _unknown(kind, name, property_name, sources) from error
        raise _failed(kind, name, property_name, error) from error
    except Exception as error:
        raise _failed(kind, name, property_name, error) from error
    try:
        # The module may define __getattr__.
        return call_plugin(f"The import of {name}", getattr, module, class_name)
    except AttributeError as error:
        raise not_in_module(kind.label, kind.base, name, property_name, module) from error
    except Exception as error:
        raise _failed(kind, name, property_name, error) from error


def _no_java(name: str, property_name: str, sources: PluginSources) -> ConfigError:
    plain = name.removeprefix(JAVA)
    if is_sink(plain, sources.directories):
        return sink_error(plain, property_name)
    known = [plugin.java_class for plugin in java_connectors(sources.directories)]
    searched = ", ".join(map(str, sources.directories)) or "which is not set or has no directory"
    return ConfigError(
        f"No jar in plugin.path ({searched}) has a Java connector {plain}, which the property {property_name} asks for"
        f"{ending(plain, _in_jars(PluginKind.CONNECTOR, sources))} There are: {', '.join(known) or 'none'}. "
        f"{jars_advice('connector')}",
        name=property_name,
    )


def _in_jars(kind: PluginKind, sources: PluginSources) -> list[str]:
    """Return the names of the plugins of a kind in jars."""
    return sorted(
        name for plugin in java_plugins(sources.directories) if plugin.base == kind.java_base for name in plugin.names
    )


def _unknown(kind: PluginKind, name: str, property_name: str, sources: PluginSources) -> ConfigError:
    if name in OTHER_DATA:
        return ConfigError(
            f"The {kind.label} {name}, given by the property {property_name}, is not supported: {OTHER_DATA[name]}",
            name=property_name,
        )
    if kind is PluginKind.CONNECTOR and is_sink(name, sources.directories):
        return sink_error(name, property_name)
    known = [entry.name for entry in plugin_entry_points(kind)]
    # The names of Java classes, which contain dots, would make the list too long to find the aliases.
    shown = [each for each in known if "." not in each] + scan(sources.directories, kind.base.__name__)
    if kind is PluginKind.CONNECTOR:
        shown += [plugin.java_class for plugin in java_connectors(sources.directories)]
    in_jars = kind is PluginKind.CONNECTOR or sources.connector is not None
    end = ending(name, [*known, *shown, *(_in_jars(kind, sources) if in_jars else ())])
    used = in_jars if kind.java_base else None
    remedy = advice(kind.label, name, sources.remedy, in_jars=used, is_near=end != ".")
    return ConfigError(
        f"There is no {kind.label} named {name!r}, which the property {property_name} asks for{end} Installed: "
        f"{', '.join(shown) or 'none'}. {remedy}",
        name=property_name,
    )


def _failed(kind: PluginKind, name: str, property_name: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"The {kind.label} {name}, given by the property {property_name}, failed to import: "
        f"{describe_error(error)}. Fix it, or install what it needs",
        name=property_name,
    )
