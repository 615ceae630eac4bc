"""The properties of a sink, of its converters and transforms, and of its Kafka clients."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.plugin_calls import kind_of
from fencepost.api.secrets import SECRETS
from fencepost.api.topic_names import topic_name
from fencepost.config.connector_config import TransformSpec, transform_chain
from fencepost.config.error_handling import ErrorHandling, ErrorTexts, define_errors
from fencepost.config.unknown_properties import unknown_properties
from fencepost.config.validators import at_least, no_control_characters, replication_factor
from fencepost.engine.topic_gate import RefusedTopic, TopicGate
from fencepost.kafka.config import client_properties
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.spark.config.progress import OF_RUN, SinkKey

_T: Final = ConfigDef.Type
_I: Final = ConfigDef.Importance

KAFKA: Final = "kafka."
_BELOW: Final = ("key.converter.", "value.converter.", "header.converter.", "transforms.", "predicates.")
_TIMEOUT: Final = "transaction.timeout.ms"
_ERRORS: Final = ErrorTexts(
    tolerance=(
        "What to do with a row that cannot be transformed or converted, or that names a topic, partition or timestamp that "
        "no record can have: none fails the query or the write, all skips the row. A row that Kafka refuses, or whose topic "
        "does not have its partition, fails it with either."
    ),
    dead_letters=(
        "The topic for rows that errors.tolerance=all skips, written in the same transaction as the other rows. Headers "
        "__connect.errors.* say what was wrong, and where. By default they are dropped."
    ),
    logged="row that cannot be transformed or converted",
)

_LONGEST_TRANSACTION_MS: Final = 900_000
"""The brokers' default of transaction.max.timeout.ms: an open transaction cannot be prolonged."""

_LONGEST_ID: Final = 32_767
"""Kafka's protocol allows no longer text, in bytes."""

_SERIALIZER: Final = (
    "rows are written as key.converter and value.converter say, or as bytes or text without them: remove it"
)
_NO_COUNTERPART: Final[Mapping[str, str]] = {
    **client_properties.NO_COUNTERPART,
    "key.serializer": _SERIALIZER,
    "value.serializer": _SERIALIZER,
}
"""Property -> what to do instead. In a worker a serializer has no effect, as in Connect; for Spark's sink it is an error."""


def _sink_name(name: str, value: Any) -> None:
    """Allow the name of a sink: text that can be a part of a transactional id."""
    no_control_characters(name, value)
    if value is None:
        return
    if OF_RUN in value:
        raise ConfigError(f"The name of a sink must not contain {OF_RUN}, which stands before a run", name=name)
    if len(_of_single_write(value).transactional_id.encode()) > _LONGEST_ID:
        raise ConfigError(
            f"The name of the sink has {len(value)} characters, too many for a transactional id: shorten it", name=name
        )


def _of_single_write(sink: str) -> SinkKey:
    """A key that no other write has, because earlier writes are unknown and must not be fenced."""
    return SinkKey(f"{sink}-{uuid.uuid4()}")


@cache
def sink_config_def() -> ConfigDef:
    """Return the definitions of a sink's own properties. They are shared: do not add to them."""
    definitions = ConfigDef()
    _define_records(definitions)
    _define_progress(definitions)
    define_errors(definitions, _ERRORS)
    return definitions


def _define_records(definitions: ConfigDef) -> None:
    definitions.define(
        "topic", _T.STRING, None, _I.HIGH,
        "The topic for rows that name none in a column `topic`. Spark's own sink ignores the column if this is set.",
        validator=topic_name,
    ).define(
        "name", _T.STRING, None, _I.HIGH,
        "The sink's name. Its progress is kept under it, and it is part of the transactional id. Unset: the id of the "
        "streaming query with the topic; for write_kafka the topic.",
        validator=_sink_name,
    ).define(
        "key.columns", _T.LIST, "", _I.MEDIUM,
        "The columns of the record's key: the column's value if it is one column, else a struct. The record's value is "
        "then a struct of all columns, for value.converter.",
    ).define(
        "key.converter", _T.CLASS, None, _I.MEDIUM,
        "The key converter. Unset: BINARY is written as it is, other simple types as text.",
    ).define(
        "value.converter", _T.CLASS, None, _I.MEDIUM,
        "The value converter. Unset: BINARY is written as it is, other simple types as text. Needed for DataFrames "
        "without a column `value`, whose rows become structs.",
    ).define(
        "header.converter", _T.CLASS, None, _I.LOW,
        "The header converter. Unset: BINARY is written as it is, other types as SimpleHeaderConverter does.",
    ).define(
        "transforms", _T.LIST, "", _I.LOW, "The aliases of transforms, as in a connector.",
    ).define(
        "predicates", _T.LIST, "", _I.LOW, "The aliases of predicates, as in a connector.",
    )  # fmt: skip


def _define_progress(definitions: ConfigDef) -> None:
    definitions.define(
        "first.batch", _T.LONG, 0, _I.LOW,
        "The first batch id to write for a sink without any progress: lower ones are taken to be in Kafka. For a query "
        "that goes on with the checkpoint of another sink, and after the loss of the sink's progress.",
        validator=at_least(0, nullable=False),
    ).define(
        "sink.storage.topic", _T.STRING, "fencepost-sinks", _I.LOW,
        "The compacted topic with the progress of all sinks. It is created if it is missing.",
        validator=topic_name,
    ).define(
        "sink.storage.replication.factor", _T.SHORT, None, _I.LOW,
        "The number of its replicas. Unset: 3, or 1 in a cluster of one broker.",
        validator=replication_factor,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """A checked configuration of a sink. `properties` has all properties, without the prefix `kafka.`."""

    topic: str | None
    name: str | None
    key_columns: tuple[str, ...]
    first_batch: int
    storage_topic: str
    storage_replication_factor: int | None
    transforms: tuple[TransformSpec, ...]
    errors: ErrorHandling
    producer: ProducerConfig = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> SinkConfig:
        """Check a sink's options; options for Kafka's clients may have the prefix `kafka.`, as for Spark's own sink.

        Passwords among them are hidden in all later messages. Raises ConfigError for the first invalid option.
        """
        properties = _properties(options)
        SECRETS.learn_properties(properties)
        own = sink_config_def().keys()
        _check_names(properties)
        if "name" in properties:
            _check_ends("name", properties["name"])
        values = sink_config_def().parse(properties)
        clients = {name: value for name, value in properties.items() if name in client_properties.ALL}
        return cls(
            topic=values["topic"],
            name=values["name"],
            key_columns=tuple(name for name in values["key.columns"] if name),
            first_batch=values["first.batch"],
            storage_topic=values["sink.storage.topic"],
            storage_replication_factor=values["sink.storage.replication.factor"],
            transforms=transform_chain(properties),
            errors=ErrorHandling.from_values(values),
            producer=ProducerConfig.from_properties(
                {_TIMEOUT: str(_LONGEST_TRANSACTION_MS)} | clients, where="the options of the sink"
            ),
            properties={name: value for name, value in properties.items() if name in own or name.startswith(_BELOW)},
        )

    @property
    def tasks_topic(self) -> str:
        """The topic with the ledgers of the writes of `format("fencepost")`."""
        return f"{self.storage_topic}-tasks"

    def topic_gate(self, sink: str) -> TopicGate:
        """Return the check of the topics of a sink's rows: the progress topics would be overwritten or blocked."""
        reasons = {
            topic: f"A row of sink {sink} is for topic {topic}, which holds the progress of sinks, or of their tasks: send "
            "it to another topic, or set sink.storage.topic"
            for topic in (self.storage_topic, self.tasks_topic)
        }
        return TopicGate(None, {topic: RefusedTopic(why, "sink.storage.topic") for topic, why in reasons.items()})

    def sink_of_query(self, query: str) -> str:
        """Return the name of the sink of a streaming query, whose id is in its checkpoint."""
        return self.name or (query if self.topic is None else f"{query}-{self.topic}")

    def key_of(self, run: object | None) -> SinkKey:
        """Return the key of a batch's progress.

        Raises ConfigError for an invalid run, and for a run of a sink without a name.
        """
        if run is None:
            return _of_single_write(self.name or self.topic or "topics")
        sink = self.name or self.topic
        if sink is None:
            raise ConfigError("A run needs a name, because each row names its topic: set name", name="name")
        # A date or a number is the same run as its text, because options of a data source are texts.
        name = _text(run)
        if not name.strip():
            raise ConfigError(
                "run is empty, so the next write with an empty one would be skipped: name the run", name="run"
            )
        _check_ends("run", name)
        key = SinkKey(sink, name)
        if len(key.transactional_id.encode()) > _LONGEST_ID:
            raise ConfigError(
                f"The run of sink {sink} has {len(name)} characters, too many for a transactional id: shorten it",
                name="run",
            )
        return key


def merged_options(
    arguments: Mapping[str, Any], options: Mapping[str, Any] | None, more_options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a call in one dict. Raises ConfigError for an option that is given with two values.

    `arguments` are named parameters, of which None means not given; `more_options` are the other keyword arguments.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(f"options is {kind_of(options)}: give a dict, such as {{'compression.type': 'zstd'}}")
    merged: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
    for name, value in [*(options or {}).items(), *more_options.items()]:
        if not isinstance(name, str):
            raise ConfigError(f"options has the name {name!r}, which is {kind_of(name)}: names are texts")
        own = name.removeprefix(KAFKA)
        if own in merged and _text(merged[own]) != _text(value):
            raise ConfigError(f"The option {own} is given twice, with two values: give it once", name=own)
        merged[own] = value
    return merged


def _properties(options: Mapping[str, Any]) -> dict[str, str]:
    """All options as text, without the prefix of Kafka's.

    Raises ConfigError for an option that is given with two values.
    """
    properties: dict[str, str] = {}
    for option, value in options.items():
        if value is None:
            continue
        name, text = option.removeprefix(KAFKA), _text(value)
        if properties.setdefault(name, text) != text:
            raise ConfigError(
                f"{name} and {KAFKA}{name} are the same option with two values: give one of them", name=name
            )
    return properties


def _check_ends(name: str, text: str) -> None:
    """Raise ConfigError for a name that starts or ends with a blank: without it the name may be another one's."""
    if text.strip() and text != text.strip():
        raise ConfigError(f"{name}={text!r} begins or ends with a blank: remove it", name=name)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_names(properties: Mapping[str, str]) -> None:
    known = {*sink_config_def().keys(), *client_properties.ALL, *_NO_COUNTERPART}
    for name, nearest in unknown_properties(properties, known, open_prefixes=_BELOW).items():
        advice = "remove it" if nearest is None else f"did you mean {nearest}?"
        raise ConfigError(
            f"{name} is neither an option of the sink nor a property of Kafka's clients: {advice}", name=name
        )
    for role in ("key.converter", "value.converter", "header.converter"):
        for name in properties:
            if name.startswith(f"{role}.") and role not in properties:
                raise ConfigError(f"{name} has no effect without {role}: set {role}, or remove it", name=name)
    for name in _NO_COUNTERPART.keys() & properties.keys():
        raise ConfigError(f"{name} has no counterpart here: {_NO_COUNTERPART[name]}", name=name)
