"""A Java connector as a SourceConnector. Its code runs in JVMs: see `jvm`.

Questions about a connector that is not started are asked of one JVM that all connectors share, and each has a new Java
object. A started connector runs in the JVM of its name, with its tasks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ConnectorTransactionBoundaries, ExactlyOnceSupport
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.java.definitions import definitions, findings
from fencepost.java.errors import JavaError, JvmEndedError
from fencepost.java.questions import about, ask, keys, version
from fencepost.java.session import ConnectorSession, JavaObject
from fencepost.java.task import JavaTask, PlacedJavaTask

_CLASS: Final = "connector.class"
_TASK_CLASS: Final = "task.class"
_USES_NO_METADATA: Final = ("io.debezium.",)
"""Packages whose tasks override commitRecord with metadata, and do not use the metadata."""


class JavaConnector(JavaObject, SourceConnector):
    """A Java connector. Subclasses, which `java_connector_class` makes, have its plugin and the settings of JVMs."""

    plugin: ClassVar[JavaPlugin]
    _session: ConnectorSession | None = None

    def version(self) -> str:
        """Return the version that the Java class reports."""
        return version(self.plugin, self.settings)

    def config(self) -> ConfigDef:
        """Return the definitions of its ConfigDef. Raises as `ask`."""
        return definitions(keys(self.plugin, self.settings))

    def validate(self, config: Config) -> list[ConfigValue]:
        """Let the Java connector check a configuration."""
        return findings(self._ask("validate", config=self._given(config))["values"])

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport | None:
        """Ask the Java connector."""
        answer = self._ask("exactlyOnceSupport", config=self._given(config))["answer"]
        return None if answer is None else ExactlyOnceSupport(answer)

    def can_define_transaction_boundaries(self, config: Config) -> ConnectorTransactionBoundaries:
        """Ask the Java connector. Its answer null means UNSUPPORTED."""
        answer = self._ask("canDefineTransactionBoundaries", config=self._given(config))["answer"]
        return ConnectorTransactionBoundaries(answer or ConnectorTransactionBoundaries.UNSUPPORTED)

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]]
    ) -> bool:
        """Let the Java connector check offsets. False if it has no check, as Connect's own class."""
        pairs = [[None if part is None else json.dumps(part) for part in pair] for pair in offsets]
        try:
            answer: bool = self._ask("alterOffsets", config=self._given(config), offsets=pairs)["answer"]
        except JavaError as error:
            if error.unsupported:
                return False
            raise
        return answer

    def start(self, config: Config) -> None:
        """Start the Java connector. Raises JavaError, JvmEndedError and what the start of a JVM raises."""
        name = self.context.configs()["name"]
        with self.starting(name) as jvm:
            session = ConnectorSession(
                jvm, self.settings, f"connector {name}", self.context, self.plugin,
                kind="connector", name=name, **{"class": self._name},
            )  # fmt: skip
            self.context.plugin_metrics.add_collector(session.metrics)
            try:
                session.call("start", config=self._given(config))
            except BaseException:
                session.close()
                raise
        self._session = session

    def stop(self) -> None:
        """Stop the Java connector, and its JVM if no task runs there."""
        session, self._session = self._session, None
        if session is not None:
            self.end(session)

    def task_class(self) -> type[SourceTask]:
        """Return the class for its tasks."""
        return _task_class(self.plugin, self.settings)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return what the Java connector returns, with the Java class of its tasks. Null values are left out."""
        if self._session is None:
            raise JvmEndedError(f"The connector {self._name} is not started: its tasks cannot be configured")
        answer = self._session.call("taskConfigs", max=max_tasks)
        return [
            {**{name: value for name, value in one.items() if value is not None}, _TASK_CLASS: answer["task"]}
            for one in answer["configs"]
        ]

    @property
    def _name(self) -> str:
        return self.plugin.java_class

    def _given(self, config: Config) -> dict[str, str]:
        """The configuration for Java code, with the name of the Java class: Debezium loads the class by it."""
        return {**config, _CLASS: self._name}

    def _ask(self, question: str, **request: Any) -> dict[str, Any]:
        return ask(self.plugin, self.settings, question, **request)


@lru_cache(maxsize=256)
def java_connector_class(plugin: JavaPlugin, settings: JavaSettings) -> type[JavaConnector]:
    """Return the class for a Java connector, named as it is."""
    return _named(JavaConnector, plugin.java_class, plugin, settings)


@lru_cache(maxsize=256)
def _task_class(plugin: JavaPlugin, settings: JavaSettings) -> type[JavaTask]:
    found = about(plugin, settings)
    wants_places = found["metadata"] and not plugin.java_class.startswith(_USES_NO_METADATA)
    return _named(PlacedJavaTask if wants_places else JavaTask, found["task"], plugin, settings)


def _named(base: type[Any], java_class: str, plugin: JavaPlugin, settings: JavaSettings) -> type[Any]:
    module, _, name = java_class.rpartition(".")
    return type(name, (base,), {"plugin": plugin, "settings": settings, "__module__": module})
