"""A Java connector as a SourceConnector. Its code runs in JVMs: see `jvm`.

Questions about a connector that is not started go to one JVM that all connectors share; each question gets a new Java
object. A started connector runs in the JVM with its name, together with its tasks.
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
from fencepost.config.java_plugins import JAVA, JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.config.plugins import CHAINS, ROLES
from fencepost.java.definitions import definitions, findings
from fencepost.java.errors import JavaError, JvmEndedError
from fencepost.java.questions import about, ask, keys, version
from fencepost.java.session import ConnectorSession, JavaObject
from fencepost.java.task import JavaTask, PlacedJavaTask

_CLASS: Final = "connector.class"
_TASK_CLASS: Final = "task.class"
_USES_NO_METADATA: Final = ("io.debezium.",)
"""Packages whose tasks override commitRecord with metadata, but do not use the metadata."""


class JavaConnector(JavaObject, SourceConnector):
    """A Java connector. `java_connector_class` makes subclasses, which have the plugin and the settings of JVMs."""

    plugin: ClassVar[JavaPlugin]
    _session: ConnectorSession | None = None

    def version(self) -> str:
        """Return the version that the Java class reports."""
        return version(self.plugin, self.settings)

    def config(self) -> ConfigDef:
        """Return the definitions from the connector's ConfigDef. Raises the errors of `ask`."""
        return definitions(keys(self.plugin, self.settings))

    def validate(self, config: Config) -> list[ConfigValue]:
        """Let the Java connector check a configuration."""
        return findings(self._ask("validate", config=self._given(config))["values"])

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport | None:
        """Ask the Java connector whether it can deliver exactly once."""
        answer = self._ask("exactlyOnceSupport", config=self._given(config))["answer"]
        return None if answer is None else ExactlyOnceSupport(answer)

    def can_define_transaction_boundaries(self, config: Config) -> ConnectorTransactionBoundaries:
        """Ask the Java connector whether its tasks can define transactions. The answer null means UNSUPPORTED."""
        answer = self._ask("canDefineTransactionBoundaries", config=self._given(config))["answer"]
        return ConnectorTransactionBoundaries(answer or ConnectorTransactionBoundaries.UNSUPPORTED)

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]]
    ) -> bool:
        """Let the Java connector check offsets.

        Returns False if the connector has no check of its own, only the check of Connect's base class.
        """
        pairs = [[None if part is None else json.dumps(part) for part in pair] for pair in offsets]
        try:
            answer: bool = self._ask("alterOffsets", config=self._given(config), offsets=pairs)["answer"]
        except JavaError as error:
            if error.unsupported:
                return False
            raise
        return answer

    def start(self, config: Config) -> None:
        """Start the Java connector. Raises JavaError, JvmEndedError, and the errors of a JVM's start."""
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
        """Return the configurations from the Java connector, with the Java class of its tasks.

        Null values are left out.
        """
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
        """Return the configuration for Java code, which knows no prefixes of names.

        In the result, connector.class is the name of the Java class, because Debezium loads the class by this name.
        """
        return {**config, **_plain_names(config), _CLASS: self._name}

    def _ask(self, question: str, **request: Any) -> dict[str, Any]:
        return ask(self.plugin, self.settings, question, **request)


def _plain_names(config: Config) -> dict[str, str]:
    """Return the properties of the pipeline that name a Java class as `java:CLASS`, with the value CLASS."""
    aliases = ((chain, alias.strip()) for chain in CHAINS for alias in config.get(chain, "").split(","))
    names = (*ROLES, *(f"{chain}.{alias}.type" for chain, alias in aliases))
    found = {name: config[name].strip() for name in names if name in config}
    return {name: value.removeprefix(JAVA) for name, value in found.items() if value.startswith(JAVA)}


@lru_cache(maxsize=256)
def java_connector_class(plugin: JavaPlugin, settings: JavaSettings) -> type[JavaConnector]:
    """Return the Python class for a Java connector. It has the name of the Java class."""
    return _named(JavaConnector, plugin.java_class, plugin, settings)


@lru_cache(maxsize=256)
def _task_class(plugin: JavaPlugin, settings: JavaSettings) -> type[JavaTask]:
    found = about(plugin, settings)
    wants_places = found["metadata"] and not plugin.java_class.startswith(_USES_NO_METADATA)
    return _named(PlacedJavaTask if wants_places else JavaTask, found["task"], plugin, settings)


def _named(base: type[Any], java_class: str, plugin: JavaPlugin, settings: JavaSettings) -> type[Any]:
    module, _, name = java_class.rpartition(".")
    return type(name, (base,), {"plugin": plugin, "settings": settings, "__module__": module})
