"""The Python classes that stand for Java plugins: a connector, and the parts of its pipeline, which run in its JVM.

The parts are only used for validation: definitions, versions and checks. The objects that process records are made in
the JVM: see `pipeline`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final, NoReturn

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.errors import IllegalStateError
from fencepost.api.plugin import Converter, HeaderConverter, Predicate, Transformation
from fencepost.config.java_plugins import (
    CONVERTER,
    HEADER_CONVERTER,
    PREDICATE,
    SOURCE_CONNECTOR,
    TRANSFORMATION,
    JavaClass,
    JavaPlugin,
)
from fencepost.config.java_settings import JavaSettings
from fencepost.java.connector import java_connector_class
from fencepost.java.definitions import definitions, findings
from fencepost.java.questions import ask, keys, version

_TYPE: Final = "converter.type"


class JavaPart(JavaClass):
    """A part of a pipeline. `java_plugin_class` makes subclasses, which have the plugin and the settings of JVMs."""

    plugin: ClassVar[JavaPlugin]
    settings: ClassVar[JavaSettings]
    set_by_worker: ClassVar[Mapping[str, str]] = {}
    """Properties that the class defines but no user sets, each with a value for validation."""

    @classmethod
    def java_version(cls) -> str:
        """Return the version that the class reports. Raises the errors of `ask`."""
        return version(cls.plugin, cls.settings)

    @classmethod
    def java_findings(cls, config: Mapping[str, str]) -> list[ConfigValue]:
        """Let the class's own ConfigDef check its properties. Raises the errors of `ask`."""
        given = {**cls.set_by_worker, **config}
        found = findings(ask(cls.plugin, cls.settings, "validate", config=given)["values"])
        return [value for value in found if value.name not in cls.set_by_worker]

    def config(self) -> ConfigDef:
        """Return the definitions from the class's ConfigDef. Raises the errors of `ask`."""
        return definitions(key for key in keys(self.plugin, self.settings) if key["name"] not in self.set_by_worker)

    def configure(self, *_: Any, **__: Any) -> NoReturn:
        """Raises IllegalStateError: the objects that process data are in JVMs."""
        self._elsewhere()

    def _elsewhere(self) -> NoReturn:
        raise IllegalStateError(f"{self.plugin.java_class} runs in the JVM of its connector")


class JavaTransformation(JavaPart, Transformation):
    """A transform in Java."""

    def apply(self, *_: Any, **__: Any) -> NoReturn:
        """Raises IllegalStateError."""
        self._elsewhere()


class JavaPredicate(JavaPart, Predicate):
    """A predicate in Java."""

    def test(self, *_: Any, **__: Any) -> NoReturn:
        """Raises IllegalStateError."""
        self._elsewhere()


class JavaConverter(JavaPart, Converter):
    """A converter in Java."""

    set_by_worker = {_TYPE: "value"}  # noqa: RUF012 - as the class above declares it

    def from_connect_data(self, *_: Any, **__: Any) -> NoReturn:
        """Raises IllegalStateError."""
        self._elsewhere()


class JavaHeaderConverter(JavaPart, HeaderConverter):
    """A header converter in Java."""

    set_by_worker = {_TYPE: "header"}  # noqa: RUF012 - as the class above declares it

    def from_connect_header(self, *_: Any, **__: Any) -> NoReturn:
        """Raises IllegalStateError."""
        self._elsewhere()


_PARTS: Final[Mapping[str, type[JavaPart]]] = {
    TRANSFORMATION: JavaTransformation,
    PREDICATE: JavaPredicate,
    CONVERTER: JavaConverter,
    HEADER_CONVERTER: JavaHeaderConverter,
}


@lru_cache(maxsize=1024)
def java_plugin_class(plugin: JavaPlugin, settings: JavaSettings) -> type[Any]:
    """Return the Python class for a Java plugin. It has the name of the Java class."""
    if plugin.base == SOURCE_CONNECTOR:
        return java_connector_class(plugin, settings)
    module, _, name = plugin.java_class.rpartition(".")
    return type(name, (_PARTS[plugin.base],), {"plugin": plugin, "settings": settings, "__module__": module})
