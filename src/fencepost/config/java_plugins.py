"""Finds the plugins in the jars of `plugin.path`, as Kafka Connect does, without a JVM.

In a directory of `plugin.path`, each folder that contains jars, at any depth, is a plugin, and so is each jar directly
in the directory. The classes of a plugin are listed in its jars' service files (KIP-898). A plugin whose service files
list no connector is scanned: a class counts if its superclasses and interfaces, as far as the plugin has them, include
one of BASES. Connect's own converters and transforms do not count: each JVM has them anyway. Other plugins are not
scanned, because that takes long: their unlisted classes are found only by their full names.

A worker reads `plugin.path` once, when it starts.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from fencepost.api.config_def import ConfigValue
from fencepost.api.errors import ConfigError
from fencepost.config.entry_points import CONNECTORS, registered

_log: Final = logging.getLogger(__name__)

JAVA: Final = "java:"
"""The prefix of a name in a configuration that stands for a class in Java only."""
CONNECT: Final = "org.apache.kafka.connect."
"""The package of Kafka Connect's own classes."""
SOURCE_CONNECTOR: Final = f"{CONNECT}source.SourceConnector"
SINK_CONNECTOR: Final = f"{CONNECT}sink.SinkConnector"
TRANSFORMATION: Final = f"{CONNECT}transforms.Transformation"
PREDICATE: Final = f"{CONNECT}transforms.predicates.Predicate"
CONVERTER: Final = f"{CONNECT}storage.Converter"
HEADER_CONVERTER: Final = f"{CONNECT}storage.HeaderConverter"
BASES: Final = (SOURCE_CONNECTOR, TRANSFORMATION, PREDICATE, CONVERTER, HEADER_CONVERTER)
"""The Java types of plugins: each class that a configuration names derives from one of them."""
_CONNECTORS: Final = (SOURCE_CONNECTOR, SINK_CONNECTOR)
_ALL: Final = (*BASES, SINK_CONNECTOR)
OF_CONNECT: Final = Path("Kafka Connect")
"""Stands for the location of Kafka Connect's own plugins, which each JVM has."""

_searching: Final = threading.Lock()
"""A cache does not keep two threads from the same search, whose messages would then be in the log twice."""

_OF_API: Final = tuple(f"{CONNECT}{package}." for package in ("storage", "converters", "json", "transforms"))
_SERVICES: Final = "META-INF/services/"
_CONNECT_SERVICES: Final = _SERVICES + CONNECT
_JAR: Final = ".jar"

_PYTHON_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
"""Names of the folders with the packages of an installation of Python."""
_IN_ENVIRONMENTS: Final = frozenset({"pyvenv.cfg", "conda-meta"})
"""Names that only occur in the root of an environment of Python."""

_DAMAGED: Final = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""The errors of a jar that cannot be read, or whose content is damaged."""

_MAGIC: Final = 0xCAFEBABE
_ABSTRACT: Final = 0x0600
"""The flags of interfaces and abstract classes, which cannot be plugins."""
_UTF8: Final = 1
_CLASS: Final = 7
_TWO_ENTRIES: Final = (5, 6)
# For each tag, the size of an entry in a class file's constant pool (JVM specification, 4.4), except texts in UTF-8.
_SIZES: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}


@dataclass(frozen=True, slots=True)
class JavaPlugin:
    """A Java class that a configuration may name. Its plugin is a folder or jar at `location`, and has these `jars`.

    `base` is the class's base class, one of BASES, or SINK_CONNECTOR.
    """

    java_class: str
    location: Path
    jars: tuple[Path, ...]
    base: str = SOURCE_CONNECTOR

    @property
    def names(self) -> frozenset[str]:
        """The names by which Connect knows the class: the full name, and aliases without package and suffix."""
        simple = self.java_class.rpartition(".")[2]
        is_connector = self.base in _CONNECTORS
        suffix = "Connector" if is_connector else self.base.rpartition(".")[2]
        return frozenset({self.java_class, simple, simple.removesuffix(suffix)} - {""})


class JavaClass:
    """Stands for a Java class that is not a connector. The class's configuration is checked in a JVM."""

    @classmethod
    def java_version(cls) -> str:
        """Return the version that the class reports."""
        raise NotImplementedError

    @classmethod
    def java_findings(cls, config: Mapping[str, str]) -> list[ConfigValue]:
        """Check properties, given without a prefix, by the definitions and validators in Java."""
        raise NotImplementedError


def find_java_connectors(directories: Sequence[Path], name: str) -> tuple[JavaPlugin, ...]:
    """Return the Java connectors with this class or alias, one for each folder that has it.

    A class that no service file lists is also found, but only by its full name. Raises ConfigError if an alias stands for
    several classes.
    """
    found = [plugin for plugin in java_connectors(tuple(directories)) if name in plugin.names]
    found = found or [
        JavaPlugin(name, location, jars)
        for location, jars in _with_class(tuple(directories), name)
        if (SOURCE_CONNECTOR, name) in _scanned(jars)
    ]
    _refuse_several_classes(f"The Java connector {name}", found, "connector.class")
    return tuple(found)


def find_beside(connector: JavaPlugin, base: str, directories: Sequence[Path], name: str) -> tuple[JavaPlugin, ...]:
    """Return the plugins of type `base` with this class or alias for a connector's pipeline, one for each folder.

    The plugin in the connector's own folder comes first. A class that no service file lists is also found, but only by
    its full name. Raises ConfigError if an alias stands for several classes.
    """
    found = [plugin for plugin in java_plugins(tuple(directories)) if plugin.base == base and name in plugin.names]
    found = found or [
        JavaPlugin(name, location, jars, base) for location, jars in _with_class(tuple(directories), name)
    ]
    own = [plugin for plugin in found if plugin.location == connector.location]
    if len({plugin.java_class for plugin in own}) == 1:
        # An alias means the class in the connector's own folder.
        found = [plugin for plugin in found if plugin.java_class == own[0].java_class]
    _refuse_several_classes(name, found, None)
    return (*own, *(plugin for plugin in found if plugin not in own))


def _refuse_several_classes(what: str, found: Sequence[JavaPlugin], property_name: str | None) -> None:
    if len({plugin.java_class for plugin in found}) < 2:
        return
    several = "; ".join(f"{plugin.java_class} in {plugin.location}" for plugin in found)
    raise ConfigError(
        f"{what} stands for several classes in plugin.path ({several}): give one with its package", name=property_name
    )


def java_connectors(directories: tuple[Path, ...]) -> tuple[JavaPlugin, ...]:
    """Return the Java connectors in directories, by class. A jar that cannot be read is logged."""
    return tuple(plugin for plugin in java_plugins(directories) if plugin.base == SOURCE_CONNECTOR)


def java_sinks(directories: tuple[Path, ...]) -> frozenset[str]:
    """Return the names of the sink connectors in directories. This worker cannot run sink connectors."""
    with _searching:
        return _sinks(directories)


@lru_cache(maxsize=16)
def _sinks(directories: tuple[Path, ...]) -> frozenset[str]:
    return frozenset(
        name
        for location, jars in _folders(directories)
        for base, java_class in _classes(jars, (SINK_CONNECTOR,))
        for name in JavaPlugin(java_class, location, jars, base).names
    )


def java_plugins(directories: tuple[Path, ...]) -> tuple[JavaPlugin, ...]:
    """Return the plugins of all kinds in directories, by class. A jar that cannot be read is logged."""
    with _searching:
        return _all_plugins(directories)


@lru_cache(maxsize=16)
def _all_plugins(directories: tuple[Path, ...]) -> tuple[JavaPlugin, ...]:
    found = [
        JavaPlugin(name, location, jars, base)
        for location, jars in _folders(directories)
        for base, name in _classes(jars, BASES)
    ]
    # A class may be a converter and a header converter.
    for message in dict.fromkeys(f"{one.java_class} is in {one.location}{_place_of(one)}" for one in found):
        _log.info("The Java class %s", message)
    return tuple(sorted(found, key=lambda plugin: (plugin.java_class, plugin.location)))


def _place_of(plugin: JavaPlugin) -> str:
    """Return the end of a log line: which Python connector a Java connector replaces; empty if it replaces none."""
    in_python = registered(CONNECTORS) if plugin.base == SOURCE_CONNECTOR else {}
    # The full name comes first, because aliases are shorter.
    taken = next((name for name in sorted(plugin.names, key=len, reverse=True) if name in in_python), None)
    if taken is None:
        return ""
    path = in_python[taken].value.replace(":", ".")
    return f", and takes the place of {path} in Python: that one is fencepost:{taken}"


@lru_cache(maxsize=16)
def _folders(directories: tuple[Path, ...]) -> tuple[tuple[Path, tuple[Path, ...]], ...]:
    """The location of each plugin, and its jars."""
    return tuple(plugin for directory in directories for plugin in _plugins(directory))


def _with_class(directories: tuple[Path, ...], name: str) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """The location and jars of each plugin that has a class of this full name."""
    if "." in name:
        path = f"{name.replace('.', '/')}.class"
        yield from (plugin for plugin in _folders(directories) if _have(plugin[1], path))


@lru_cache(maxsize=1024)
def _have(jars: tuple[Path, ...], name: str) -> bool:
    """Whether any of these jars contains a file. Jars that cannot be read are skipped: they were logged before."""
    for jar in jars:
        with suppress(*_DAMAGED), zipfile.ZipFile(jar) as archive:
            if name in archive.namelist():
                return True
    return False


def forget_plugins() -> None:
    """Clear the caches, so that the directories are read again."""
    for cached in (_all_plugins, _sinks, _folders, _listed, _have, _scanned):
        cached.cache_clear()


def _is_of_python(folder: str, names: Iterable[str]) -> bool:
    """Whether a folder belongs to an installation of Python. The jars there are PySpark's: it takes long to scan them."""
    return Path(folder).name in _PYTHON_PACKAGES or not _IN_ENVIRONMENTS.isdisjoint(names)


def _plugins(directory: Path) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    # The directory itself may be an environment, with plugins beside Python's packages.
    is_searched = directory.is_dir() and directory.name not in _PYTHON_PACKAGES
    for path in sorted(directory.iterdir()) if is_searched else ():
        if path.is_dir():
            jars = _jars(path)
            if jars:
                yield path, jars
        elif path.suffix == _JAR:
            yield path, (path,)


def _jars(plugin: Path) -> tuple[Path, ...]:
    """Return the jars in a folder, at any depth, also behind links, but not in an installation of Python."""
    found: list[Path] = []
    seen: set[str] = set()
    for folder, folders, names in os.walk(plugin, followlinks=True):
        real = os.path.realpath(folder)
        # Links may form a circle.
        if real in seen or _is_of_python(folder, [*folders, *names]):
            folders.clear()
        else:
            seen.add(real)
            folders.sort()
            found += [Path(folder) / name for name in names if name.endswith(_JAR)]
    return tuple(sorted(found))


def _classes(jars: tuple[Path, ...], bases: Sequence[str]) -> list[tuple[str, str]]:
    """Return the plugin classes in jars that have one of these `bases`, as pairs of base and name."""
    return [found for found in _listed(jars) if found[0] in bases]


@lru_cache(maxsize=1024)
def _listed(jars: tuple[Path, ...]) -> Sequence[tuple[str, str]]:
    listed: dict[tuple[str, str], None] = {}
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                for service in archive.namelist():
                    if service.startswith(_CONNECT_SERVICES):
                        base = service.removeprefix(_SERVICES)
                        # The jar of Connect's API has service files of its own, and often lies beside a plugin: it does
                        # not count.
                        own = _not_of_api((base, name) for name in _service(archive.read(service)))
                        listed |= dict.fromkeys(own)
        except _DAMAGED as error:
            _log.error("The jar %s of plugin.path cannot be read: %s", jar, error)
    if not any(base in _CONNECTORS for base, _ in listed):
        # Often a converter's jar lists its class, and the jar of the connector beside it does not.
        listed |= dict.fromkeys(_scanned(jars))
    return tuple(listed)


def _service(text: bytes) -> Iterator[str]:
    for line in text.decode("utf-8", "replace").splitlines():
        name = line.partition("#")[0].strip()
        if name:
            yield name


@lru_cache(maxsize=1024)
def _scanned(jars: tuple[Path, ...]) -> Sequence[tuple[str, str]]:
    """Scan all classes in jars. Return the plugin classes as pairs of base and name."""
    classes: dict[str, _ClassFile] = {}
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                for name in archive.namelist():
                    if name.endswith(".class") and not name.startswith("META-INF/") and "module-info" not in name:
                        one = _class_file(archive.read(name))
                        classes.setdefault(one.name, one)
        except (*_DAMAGED, ValueError, struct.error, LookupError) as error:
            _log.error("The jar %s of plugin.path cannot be scanned for plugins: %s", jar, error)
    concrete = sorted(name for name, one in classes.items() if not one.is_abstract)
    return _not_of_api((base, name) for name in concrete for base in _above(classes, name).intersection(_ALL))


def _not_of_api(found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(base, name) for base, name in found if not name.startswith(_OF_API)]


def _above(classes: Mapping[str, _ClassFile], name: str) -> set[str]:
    """Return the classes and interfaces above a class, as far as they are known."""
    found: set[str] = set()
    left = [name]
    while left:
        one = classes.get(left.pop())
        new = set(() if one is None else one.parents) - found
        found |= new
        left += new
    return found


@dataclass(frozen=True, slots=True)
class _ClassFile:
    name: str
    parents: tuple[str, ...]
    is_abstract: bool


def _class_file(data: bytes) -> _ClassFile:
    """Read the names in a class file. Raises ValueError, LookupError or struct.error for other data."""
    magic, _, count = struct.unpack_from(">IIH", data)
    if magic != _MAGIC:
        raise ValueError("one of its .class files is not a class file")
    texts: dict[int, str] = {}
    names: dict[int, int] = {}
    at, number = 10, 1
    while number < count:
        tag = data[at]
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", data, at + 1)
            texts[number] = data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            if tag == _CLASS:
                (names[number],) = struct.unpack_from(">H", data, at + 1)
            at += 1 + _SIZES[tag]
        number += 2 if tag in _TWO_ENTRIES else 1
    flags, this, parent, interfaces = struct.unpack_from(">HHHH", data, at)
    above = [parent, *struct.unpack_from(f">{interfaces}H", data, at + 8)]

    def named(number: int) -> str:
        return texts[names[number]].replace("/", ".")

    return _ClassFile(named(this), tuple(named(number) for number in above if number), bool(flags & _ABSTRACT))
