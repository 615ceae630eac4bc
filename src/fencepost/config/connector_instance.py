"""A connector object, called through `plugin_calls`, with its return values checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from fencepost.api.abandonable import Abandonable
from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ConnectorTransactionBoundaries, ExactlyOnceSupport, SourceConnectorContext
from fencepost.api.plugin_calls import call_plugin, kind_of, refuse_answer
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask, describe

Answer = TypeVar("Answer", bound=StrEnum)


class ConnectorInstance:
    """Calls one SourceConnector.

    Each method raises the connector's own exception if that is an ordinary failure. It raises PluginError for anything
    else that the connector raises, and for a return value of a wrong type. Each method may be called on the same
    threads as the connector's own method.
    """

    def __init__(self, connector: SourceConnector, name: str) -> None:
        """`name` names the connector in messages, usually as its configuration does."""
        self._connector = connector
        self._name = name

    @classmethod
    def of(cls, plugin: type[SourceConnector], name: str | None = None) -> ConnectorInstance:
        """Return a new instance of a connector's class. Raises like all methods."""
        known = name or describe(plugin)
        return cls(call_plugin(f"The constructor of connector {known}", plugin), known)

    @property
    def type_name(self) -> str:
        """The name of the connector's class."""
        return type(self._connector).__name__

    def version(self) -> str:
        """Return the connector's own version."""
        answer = call_plugin(self._what("version"), self._connector.version)
        if not isinstance(answer, str):
            self._refuse("version", kind_of(answer), "a str")
        return answer

    def config(self) -> ConfigDef:
        """Return the definitions of the connector's own properties."""
        answer = call_plugin(self._what("config"), self._connector.config)
        if not isinstance(answer, ConfigDef):
            self._refuse("config", kind_of(answer), "a fencepost.ConfigDef, such as ConfigDef().define(...)")
        return answer

    def validate_definitions(self, config: Config) -> list[ConfigValue]:
        """Check a configuration against `config` alone.

        The definitions may contain validators, which are the connector's code.
        """
        return call_plugin(f"A validator in the config() of connector {self._name}", self.config().validate, config)

    def validate(self, config: Config) -> list[ConfigValue]:
        """Let the connector check a configuration."""
        answer: Any = call_plugin(self._what("validate"), self._connector.validate, config)
        values = self._list("validate", answer, "a list of fencepost.ConfigValue")
        for position, value in enumerate(values):
            if not isinstance(value, ConfigValue):
                found = f"{kind_of(answer)} whose item {position} is {kind_of(value)}"
                self._refuse("validate", found, "a list of fencepost.ConfigValue")
            if not isinstance(value.errors, list) or not all(isinstance(error, str) for error in value.errors):
                found = f"a ConfigValue for {value.name!r} whose errors are not a list of str"
                self._refuse("validate", found, "errors as texts")
        return values

    def set_context(self, context: SourceConnectorContext) -> None:
        """Give the connector its context."""
        call_plugin(f"The context of connector {self._name}", setattr, self._connector, "context", context)

    def start(self, config: Config, context: SourceConnectorContext) -> None:
        """Start the connector."""
        self.set_context(context)
        call_plugin(self._what("start"), self._connector.start, config)

    def stop(self) -> None:
        """Stop the connector."""
        call_plugin(self._what("stop"), self._connector.stop)

    def abandon(self) -> None:
        """If `start` does not return, end the connector's code, as far as it can be ended."""
        if isinstance(self._connector, Abandonable):
            self._connector.abandon()

    def task_class(self) -> type[SourceTask]:
        """Return the class of the connector's tasks."""
        answer: Any = call_plugin(self._what("task_class"), self._connector.task_class)
        if not (isinstance(answer, type) and issubclass(answer, SourceTask)):
            self._refuse("task_class", kind_of(answer), "a class that derives from fencepost.SourceTask")
        return answer

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return a configuration for each task."""
        expected = "a list of dicts of str, one for each task"
        answer: Any = call_plugin(self._what("task_configs"), self._connector.task_configs, max_tasks)
        configs = self._list("task_configs", answer, expected)
        for position, config in enumerate(configs):
            if not isinstance(config, Mapping):
                self._refuse("task_configs", f"a list whose item {position} is {kind_of(config)}", expected)
            for name, value in config.items():
                if not (isinstance(name, str) and isinstance(value, str)):
                    found = f"a list whose item {position} has {kind_of(value)} for {name!r}"
                    self._refuse("task_configs", found, f"{expected}: str(...) makes one of most values")
        return [dict(config) for config in configs]

    def known_schemas(self, config: Config) -> dict[str, str]:
        """Return the columns of the records by topic, as far as they are known from the configuration."""
        answer: Any = call_plugin(self._what("known_schemas"), self._connector.known_schemas, config)
        expected = "a dict of str: the columns of each topic as DDL"
        if not isinstance(answer, Mapping):
            self._refuse("known_schemas", kind_of(answer), expected)
        for topic, columns in answer.items():
            if not (isinstance(topic, str) and isinstance(columns, str)):
                self._refuse("known_schemas", f"a dict that has {kind_of(columns)} for {topic!r}", expected)
        return dict(answer)

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport | None:
        """Ask the connector whether it can deliver exactly once."""
        answer = call_plugin(self._what("exactly_once_support"), self._connector.exactly_once_support, config)
        return self._choice("exactly_once_support", answer, ExactlyOnceSupport)

    def can_define_transaction_boundaries(self, config: Config) -> ConnectorTransactionBoundaries | None:
        """Ask the connector whether its tasks use the transaction context."""
        method = "can_define_transaction_boundaries"
        answer = call_plugin(self._what(method), self._connector.can_define_transaction_boundaries, config)
        return self._choice(method, answer, ConnectorTransactionBoundaries)

    def partitions_follow_task_configs(self, config: Config) -> bool:
        """Ask the connector whether unchanged tasks may keep running when other tasks change."""
        method = "partitions_follow_task_configs"
        return self._bool(
            method, call_plugin(self._what(method), self._connector.partitions_follow_task_configs, config)
        )

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]]
    ) -> bool:
        """Notify the connector of offsets that will be set."""
        answer = call_plugin(self._what("alter_offsets"), self._connector.alter_offsets, config, offsets)
        return self._bool("alter_offsets", answer)

    def bind_offsets(
        self, config: Config, offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]]
    ) -> list[tuple[SourcePartition | None, SourceOffset | None]]:
        """Return the offsets that the connector wants to store instead of the given ones, in the same order."""
        expected = "the given pairs of source partition and offset, in their order"
        answer: Any = call_plugin(self._what("bind_offsets"), self._connector.bind_offsets, config, offsets)
        bound = self._list("bind_offsets", answer, expected)
        if len(bound) != len(offsets):
            self._refuse("bind_offsets", f"{kind_of(answer)} of {len(bound)} instead of {len(offsets)} pairs", expected)
        for position, (pair, given) in enumerate(zip(bound, offsets, strict=True)):
            if not _is_bound(pair, given):
                self._refuse("bind_offsets", f"{kind_of(answer)} whose item {position} is not the given pair", expected)
        return bound

    def _list(self, method: str, answer: Any, expected: str) -> list[Any]:
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            self._refuse(method, kind_of(answer), expected)
        return call_plugin(self._what(method), list, answer)

    def _bool(self, method: str, answer: object) -> bool:
        if not isinstance(answer, bool):
            self._refuse(method, kind_of(answer), "True or False")
        return answer

    def _choice(self, method: str, answer: object, choices: type[Answer]) -> Answer | None:
        if answer is None:
            return None
        if not isinstance(answer, str) or answer not in list(choices):
            expected = f"{choices.__name__}.{f' or {choices.__name__}.'.join(choices)}"
            self._refuse(method, kind_of(answer), f"{expected}, or None where the connector does not say")
        return choices(answer)

    def _what(self, method: str) -> str:
        return f"{method}() of connector {self._name}"

    def _refuse(self, method: str, found: str, expected: str) -> NoReturn:
        refuse_answer(self._what(method), getattr(self._connector, method), found, expected)


def _is_bound(pair: object, given: tuple[SourcePartition | None, SourceOffset | None]) -> bool:
    """Whether a pair sets or removes the offset of the given source partition, as the given pair does."""
    partition, offset = given
    match pair:
        case (found, None):
            return found == partition and offset is None
        case (found, Mapping()):
            return found == partition and offset is not None
    return False
