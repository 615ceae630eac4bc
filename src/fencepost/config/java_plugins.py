"""Finds the plugins in the jars of `plugin.path`, as Kafka Connect does, without a JVM.

Each folder below a directory of `plugin.path` that has jars, at any depth, is a plugin, and so is each jar beside such
folders. The classes of a plugin are those that its jars' service files list (KIP-898). A plugin whose jars have no such
file is scanned: a class counts if its superclasses and interfaces, as far as the plugin has them, include one of BASES.
Connect's own converters and transforms do not count: each JVM has them anyway.

A worker reads `plugin.path` once, when it starts.
"""

from __future__ import annotations

import logging
import os
import struct
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

_log: Final = logging.getLogger(__name__)

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
OF_CONNECT: Final = Path("Kafka Connect")
"""The location of Kafka Connect's own plugins, which each JVM has."""

_OF_API: Final = tuple(f"{CONNECT}{package}." for package in ("storage", "converters", "json", "transforms"))
_SERVICES: Final = "META-INF/services/"
_CONNECT_SERVICES: Final = _SERVICES + CONNECT
_JAR: Final = ".jar"

_DAMAGED: Final = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""The errors of a jar that cannot be read, or whose content is damaged."""

_MAGIC: Final = 0xCAFEBABE
_ABSTRACT: Final = 0x0600
"""The flags of interfaces and abstract classes, which cannot be plugins."""
_UTF8: Final = 1
_CLASS: Final = 7
_TWO_ENTRIES: Final = (5, 6)
# The sizes of the other entries of a class file's constants, by their tags (JVM specification, 4.4).
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
    """A Java class that a configuration may name. Its plugin is the folder or jar `location`, with these `jars`.

    `base` is its base class, one of BASES, or SINK_CONNECTOR.
    """

    java_class: str
    location: Path
    jars: tuple[Path, ...]
    base: str = SOURCE_CONNECTOR

    @property
    def names(self) -> frozenset[str]:
        """The names that Connect knows the class by: the class, and the aliases without its package and its suffix."""
        simple = self.java_class.rpartition(".")[2]
        is_connector = self.base in (SOURCE_CONNECTOR, SINK_CONNECTOR)
        suffix = "Connector" if is_connector else self.base.rpartition(".")[2]
        return frozenset({self.java_class, simple, simple.removesuffix(suffix)} - {""})


class JavaClass:
    """Stands for a class in Java that is not a connector. Its configuration is checked in a JVM."""

    @classmethod
    def java_version(cls) -> str:
        """Return the version that the class reports."""
        raise NotImplementedError

    @classmethod
    def java_findings(cls, config: Mapping[str, str]) -> list[ConfigValue]:
        """Check properties, given without a prefix, by the definitions and validators in Java."""
        raise NotImplementedError


def find_java_connectors(directories: Sequence[Path], name: str) -> tuple[JavaPlugin, ...]:
    """Return the Java connectors of that class or alias, one for each folder that has it.

    Raises ConfigError if an alias stands for several classes.
    """
    found = [plugin for plugin in java_connectors(tuple(directories)) if name in plugin.names]
    _refuse_several_classes(f"The Java connector {name}", found, "connector.class")
    return tuple(found)


def find_beside(connector: JavaPlugin, base: str, directories: Sequence[Path], name: str) -> tuple[JavaPlugin, ...]:
    """Return the plugins for a connector's pipeline by their base and their class or alias, one for each folder.

    The one in the connector's own folder comes first. A class that no service file lists is found as well, by its full
    name. Raises ConfigError if an alias stands for several classes.
    """
    found = [plugin for plugin in java_plugins(tuple(directories)) if plugin.base == base and name in plugin.names]
    found = found or [
        JavaPlugin(name, location, jars, base)
        for location, jars in _folders(tuple(directories))
        if "." in name and _have(jars, f"{name.replace('.', '/')}.class")
    ]
    own = [plugin for plugin in found if plugin.location == connector.location]
    if len({plugin.java_class for plugin in own}) == 1:
        # An alias means the class in the connector's folder.
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


@lru_cache(maxsize=16)
def java_sinks(directories: tuple[Path, ...]) -> frozenset[str]:
    """Return the names of the sink connectors in directories, which nothing here runs."""
    return frozenset(
        name
        for location, jars in _folders(directories)
        for base, java_class in _classes(jars, (SINK_CONNECTOR,))
        for name in JavaPlugin(java_class, location, jars, base).names
    )


@lru_cache(maxsize=16)
def java_plugins(directories: tuple[Path, ...]) -> tuple[JavaPlugin, ...]:
    """Return the plugins of all kinds in directories, by class. A jar that cannot be read is logged."""
    found = [
        JavaPlugin(name, location, jars, base)
        for location, jars in _folders(directories)
        for base, name in _classes(jars, BASES)
    ]
    for plugin in found:
        _log.info("The Java class %s is in %s", plugin.java_class, plugin.location)
    return tuple(sorted(found, key=lambda plugin: (plugin.java_class, plugin.location)))


@lru_cache(maxsize=16)
def _folders(directories: tuple[Path, ...]) -> tuple[tuple[Path, tuple[Path, ...]], ...]:
    """The location of each plugin, and its jars."""
    return tuple(plugin for directory in directories for plugin in _plugins(directory))


@lru_cache(maxsize=1024)
def _have(jars: tuple[Path, ...], name: str) -> bool:
    """Whether a file is in any of some jars. Those that cannot be read were logged."""
    for jar in jars:
        with suppress(*_DAMAGED), zipfile.ZipFile(jar) as archive:
            if name in archive.namelist():
                return True
    return False


def forget_plugins() -> None:
    """Read the directories again."""
    for cached in (java_plugins, java_sinks, _folders, _have):
        cached.cache_clear()


def _plugins(directory: Path) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path.is_dir():
            jars = _jars(path)
            if jars:
                yield path, jars
        elif path.suffix == _JAR:
            yield path, (path,)


def _jars(plugin: Path) -> tuple[Path, ...]:
    """The jars in a folder, at any depth, and behind links to folders."""
    found: list[Path] = []
    seen: set[str] = set()
    for folder, folders, names in os.walk(plugin, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            # Links may lead in circles.
            folders.clear()
        else:
            seen.add(real)
            folders.sort()
            found += [Path(folder) / name for name in names if name.endswith(_JAR)]
    return tuple(sorted(found))


def _classes(jars: Sequence[Path], bases: Sequence[str]) -> list[tuple[str, str]]:
    """The base and the name of each plugin's class in jars, of those with one of some bases."""
    listed: dict[tuple[str, str], None] = {}
    has_services = False
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                names = archive.namelist()
                for service in names:
                    if service.startswith(_CONNECT_SERVICES):
                        base = service.removeprefix(_SERVICES)
                        own = _not_of_api((base, name) for name in _service(archive.read(service)))
                        # Connect's API has service files of its own, and often lies beside a plugin.
                        has_services = has_services or bool(own)
                        listed |= dict.fromkeys(found for found in own if base in bases)
        except _DAMAGED as error:
            _log.error("The jar %s of plugin.path cannot be read: %s", jar, error)
    return list(listed) if has_services else _scanned(jars, bases)


def _service(text: bytes) -> Iterator[str]:
    for line in text.decode("utf-8", "replace").splitlines():
        name = line.partition("#")[0].strip()
        if name:
            yield name


def _scanned(jars: Sequence[Path], bases: Sequence[str]) -> list[tuple[str, str]]:
    """The base and the name of each plugin's class among all classes of jars."""
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
    return _not_of_api((base, name) for name in concrete for base in _above(classes, name).intersection(bases))


def _not_of_api(found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(base, name) for base, name in found if not name.startswith(_OF_API)]


def _above(classes: Mapping[str, _ClassFile], name: str) -> set[str]:
    """The known classes that a class extends and implements."""
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
    """Read the names in a class file. Raises ValueError, LookupError or struct.error for anything else."""
    magic, _, count = struct.unpack_from(">IIH", data)
    if magic != _MAGIC:
        raise ValueError("it has a class file that is none")
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
