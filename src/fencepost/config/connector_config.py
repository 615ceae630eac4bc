"""A source connector's configuration. The properties have Kafka Connect's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigValue, parse_type
from fencepost.api.errors import ConfigError
from fencepost.api.topic_names import topic_name
from fencepost.config.config_transformer import TransformedConfig
from fencepost.config.error_handling import ErrorHandling, define_errors
from fencepost.config.properties import below
from fencepost.config.restart_config import define_restarts
from fencepost.config.topic_creation import TopicCreation, topic_creation
from fencepost.config.validators import at_least, connector_name, not_blank, one_of

_T = ConfigDef.Type
_I = ConfigDef.Importance
_W = ConfigDef.Width
_COMMON: Final = "Common"


class ExactlyOnceRequest(StrEnum):
    """The values of the connector property `exactly.once.support` (KIP-618); `disabled` is fencepost's own."""

    REQUESTED = "requested"
    REQUIRED = "required"
    DISABLED = "disabled"


class TransactionBoundary(StrEnum):
    """The values of the connector property `transaction.boundary`: what ends a transaction (KIP-618)."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"
    SNAPSHOT = "snapshot"
    SOURCE = "source"


@cache
def connector_config_def() -> ConfigDef:
    """Return the definitions of the properties that every source connector has, with Connect's groups and orders.

    The definitions are made once, which takes a millisecond, and shared: do not add to them.
    """
    definitions = ConfigDef()
    parts = (
        _define_common,
        _define_converters,
        _define_chain,
        define_errors,
        _define_topic_creation,
        _define_exactly_once,
    )
    for define in parts:
        define(definitions)
    return define_restarts(definitions, whose="Unset: the worker's.", group="Error Handling")


def _define_common(definitions: ConfigDef) -> None:
    definitions.define(
        "name", _T.STRING, ConfigDef.NO_DEFAULT, _I.HIGH,
        "The connector's name. Its source offsets are kept under it.",
        validator=connector_name, group=_COMMON, order_in_group=1, width=_W.MEDIUM,
    ).define(
        "connector.class", _T.STRING, ConfigDef.NO_DEFAULT, _I.HIGH,
        "The connector: a dotted Python path, an alias, or the name of a Java class in plugin.path or of a built-in.",
        validator=not_blank, group=_COMMON, order_in_group=2, width=_W.LONG,
    ).define(
        "connector.plugin.version", _T.STRING, None, _I.MEDIUM,
        "The version of the connector, or a range of versions such as [1.2,2.0). An installed version must match; of "
        "several, the newest runs. Unset: the newest installed version.",
        group=_COMMON, order_in_group=3, width=_W.MEDIUM,
    ).define(
        "tasks.max", _T.INT, 1, _I.HIGH, "The maximum number of tasks that the connector may create.",
        validator=at_least(1, nullable=False), group=_COMMON, order_in_group=4, width=_W.SHORT,
    ).define(
        "tasks.max.enforce", _T.BOOLEAN, True, _I.LOW,
        "Whether a connector fails if it creates more tasks than tasks.max. If false, a warning is logged.",
        group=_COMMON, order_in_group=5, width=_W.SHORT,
    ).define(
        "config.action.reload", _T.STRING, "restart", _I.LOW,
        "Accepted for compatibility: values from config providers are read when a connector or task starts.",
        validator=one_of(["none", "restart"]), group=_COMMON, order_in_group=14, width=_W.MEDIUM,
    )  # fmt: skip


def _define_converters(definitions: ConfigDef) -> None:
    for number, what in enumerate(("key", "value", "header")):
        definitions.define(
            f"{what}.converter", _T.CLASS, None, _I.LOW,
            f"The {what} converter. The names of its own properties have the prefix {what}.converter. Unset: the worker's "
            "converter.",
            group=_COMMON, order_in_group=6 + 2 * number, width=_W.SHORT,
        ).define(
            f"{what}.converter.plugin.version", _T.STRING, None, _I.LOW,
            f"The version of the {what} converter, or a range of versions such as [1.2,2.0). An installed version must match; "
            "of several, the newest is used. Unset: any version.",
            group=_COMMON, order_in_group=7 + 2 * number, width=_W.SHORT,
        )  # fmt: skip


def _define_chain(definitions: ConfigDef) -> None:
    definitions.define(
        "transforms", _T.LIST, "", _I.LOW,
        "The aliases of transforms, comma-separated, in the order in which they are applied. transforms.<alias>.type "
        "names the class of a transform; the transform's own properties have the prefix transforms.<alias>, too.",
        group="Transforms", order_in_group=12, width=_W.LONG,
    ).define(
        "predicates", _T.LIST, "", _I.LOW,
        "The aliases of predicates, comma-separated. A transform with transforms.<alias>.predicate is applied only to "
        "records for which this predicate is true (with transforms.<alias>.negate=true: is false).",
        group="Predicates", order_in_group=13, width=_W.LONG,
    )  # fmt: skip


def _define_topic_creation(definitions: ConfigDef) -> None:
    definitions.define(
        "topic.creation.groups", _T.LIST, "", _I.LOW,
        "The names of groups of topics, comma-separated, in addition to the group default. Missing topics of a group "
        "are created with its properties: topic.creation.<group>.include, .exclude, .partitions, .replication.factor "
        "and any topic setting.",
        group="Topic Creation", order_in_group=1, width=_W.LONG,
    )  # fmt: skip


def _define_exactly_once(definitions: ConfigDef) -> None:
    group = "Exactly Once Support"
    definitions.define(
        "exactly.once.support", _T.STRING, "requested", _I.MEDIUM,
        "required: the configuration is refused unless the connector declares that it can deliver exactly once with "
        "it. requested: the connector is not asked. disabled: the connector delivers at least once, even if the "
        "worker has exactly-once delivery enabled; Kafka Connect does not have this value.",
        validator=one_of([str(request) for request in ExactlyOnceRequest]),
        group=group, order_in_group=2, width=_W.SHORT,
    ).define(
        "transaction.boundary", _T.STRING, "poll", _I.MEDIUM,
        "When a transaction is committed. poll: after each batch. interval: after transaction.boundary.interval.ms. "
        "connector: when the connector says so. snapshot: as poll, but a snapshot of Debezium is one transaction. "
        "source: after each batch too, but no transaction of the database that a Debezium connector in Java reads is "
        "split. Kafka Connect does not have snapshot and source.",
        validator=one_of([str(boundary) for boundary in TransactionBoundary]),
        group=group, order_in_group=3, width=_W.SHORT,
    ).define(
        "transaction.boundary.interval.ms", _T.LONG, None, _I.LOW,
        "For transaction.boundary=interval: how long a transaction collects records, in milliseconds; 0: each batch "
        "is a transaction. Unset: the worker's offset.flush.interval.ms.",
        validator=at_least(0), group=group, order_in_group=4, width=_W.SHORT,
    ).define(
        "offsets.storage.topic", _T.STRING, None, _I.LOW,
        "A topic for this connector's source offsets alone. It is created if missing. Offsets that it lacks are read "
        "from the worker's offset.storage.topic, and committed offsets are also copied to that topic. Unset: the "
        "worker's topic; with producer.override.bootstrap.servers, the topic of that name on the cluster that this "
        "property names.",
        validator=topic_name, group="offsets.topic", order_in_group=1, width=_W.LONG,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin that a configuration names, with the plugin's own properties, without their prefix."""

    type: str
    properties: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """One transform of a chain, and the predicate that says which records it applies to, if it has one."""

    alias: str
    transform: PluginSpec
    predicate: PluginSpec | None = None
    negate: bool = False
    predicate_alias: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A connector's configuration, checked. Times are in milliseconds. None means that the worker's value applies."""

    name: str
    connector_class: str
    tasks_max: int
    tasks_max_enforce: bool
    exactly_once_support: ExactlyOnceRequest
    transaction_boundary: TransactionBoundary
    transaction_boundary_interval_ms: int | None
    offsets_storage_topic: str | None
    transforms: tuple[TransformSpec, ...]
    topic_creation: TopicCreation | None
    errors: ErrorHandling
    properties: Mapping[str, str] = field(repr=False)
    """All properties, with their placeholders resolved."""
    transformed: TransformedConfig = field(repr=False)
    """The result of resolving the placeholders."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ConnectorConfig:
        """Check the properties that every connector has. Raises ConfigError for the first invalid one."""
        return cls.from_transformed(TransformedConfig(properties))

    @classmethod
    def from_transformed(
        cls, transformed: TransformedConfig, defaults: Mapping[str, str] = MappingProxyType({})
    ) -> ConnectorConfig:
        """Check properties whose placeholders are resolved. Raises the errors of `from_properties`.

        `defaults` are the connector's own defaults for properties that every connector has.
        """
        properties = transformed.properties
        values = connector_config_def().parse({**defaults, **properties})
        return cls(
            name=values["name"].strip(),
            connector_class=values["connector.class"],
            tasks_max=values["tasks.max"],
            tasks_max_enforce=values["tasks.max.enforce"],
            exactly_once_support=ExactlyOnceRequest(values["exactly.once.support"].lower()),
            transaction_boundary=TransactionBoundary(values["transaction.boundary"].lower()),
            transaction_boundary_interval_ms=values["transaction.boundary.interval.ms"],
            offsets_storage_topic=values["offsets.storage.topic"],
            transforms=transform_chain(properties),
            topic_creation=topic_creation(properties),
            errors=ErrorHandling.from_values(values),
            properties=MappingProxyType(dict(properties)),
            transformed=transformed,
        )

    @property
    def at_least_once(self) -> bool:
        """Whether the connector delivers at least once, even if the worker could deliver exactly once."""
        return self.exactly_once_support is ExactlyOnceRequest.DISABLED

    def converter(self, role: str, worker_properties: Mapping[str, str]) -> PluginSpec:
        """Return the converter for a role, such as `key.converter`: the connector's own, else the worker's."""
        owner = self.properties if role in self.properties else worker_properties
        return PluginSpec(owner[role], below(owner, f"{role}."))


_TRANSFORM_PROPERTIES: Final = frozenset({"type", "predicate", "negate"})


def transform_chain(properties: Mapping[str, str]) -> tuple[TransformSpec, ...]:
    """Return the transforms in their order. Raises ConfigError for an alias without a type, or named twice."""
    predicates = {alias: _plugin("predicates", alias, properties) for alias in plugin_aliases("predicates", properties)}
    return tuple(_transform(alias, properties, predicates) for alias in plugin_aliases("transforms", properties))


def chain_errors(properties: Mapping[str, str]) -> list[ConfigValue]:
    """Return the errors in the transform chain, each on the property that causes it."""
    found: list[ConfigValue] = []
    # A malformed predicate counts as known, because its error is already reported.
    predicates = dict.fromkeys(_each("predicates", properties, found), PluginSpec("", {}))
    for alias in predicates:
        with _collected(found):
            _plugin("predicates", alias, properties)
    for alias in _each("transforms", properties, found):
        with _collected(found):
            _transform(alias, properties, predicates)
    return found


def _each(what: str, properties: Mapping[str, str], found: list[ConfigValue]) -> list[str]:
    with _collected(found):
        return plugin_aliases(what, properties)
    return []


@contextmanager
def _collected(found: list[ConfigValue]) -> Iterator[None]:
    """Collect a ConfigError as an error of the property that it names."""
    try:
        yield
    except ConfigError as error:
        found.append(ConfigValue(error.name or "transforms", errors=[str(error)]))


def plugin_aliases(what: str, properties: Mapping[str, str]) -> list[str]:
    """Return the aliases in the list of the property `transforms` or `predicates`.

    Raises ConfigError for an alias that is named twice.
    """
    aliases = [alias for alias in parse_type(what, properties.get(what, ""), _T.LIST) if alias]
    if len(set(aliases)) < len(aliases):
        raise ConfigError(f"The property {what} names an alias twice: {properties[what]}", name=what)
    return aliases


def _plugin(
    what: str, alias: str, properties: Mapping[str, str], own: frozenset[str] = frozenset({"type"})
) -> PluginSpec:
    prefix = f"{what}.{alias}."
    ConfigDef().define(f"{prefix}type", _T.CLASS, validator=not_blank).parse(properties)
    given = below(properties, prefix)
    return PluginSpec(given["type"], {name: value for name, value in given.items() if name not in own})


def _transform(alias: str, properties: Mapping[str, str], predicates: Mapping[str, PluginSpec]) -> TransformSpec:
    prefix = f"transforms.{alias}."
    given = properties.get(f"{prefix}predicate")
    if given is not None and given not in predicates:
        raise ConfigError(
            f"{prefix}predicate names {given!r}, which is not among the predicates: add it to the property predicates",
            name=f"{prefix}predicate",
        )
    negate: Any = parse_type(f"{prefix}negate", properties.get(f"{prefix}negate", "false"), _T.BOOLEAN)
    return TransformSpec(
        alias,
        _plugin("transforms", alias, properties, _TRANSFORM_PROPERTIES),
        predicates[given] if given is not None else None,
        negate,
        given or "",
    )
