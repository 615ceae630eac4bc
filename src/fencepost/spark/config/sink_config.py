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
        "What happens to a row that cannot be transformed or converted, or that names a topic, partition or timestamp "
        "that no record can have. none: the query or the write fails. all: the row is skipped. With both values, the "
        "query or the write fails if Kafka refuses a row, or if the row's topic does not have its partition."
    ),
    dead_letters=(
        "The topic for rows that errors.tolerance=all skips, written in the same transaction as the other rows. "
        "Headers __connect.errors.* name the error, the stage and the plugin. Unset: skipped rows are dropped."
    ),
    logged="row that cannot be transformed or converted",
)

_LONGEST_TRANSACTION_MS: Final = 900_000
"""The brokers' default of transaction.max.timeout.ms. The time-out of an open transaction cannot be extended."""

_LONGEST_ID: Final = 32_767
"""The maximum length of a text in Kafka's protocol, in bytes."""

_SERIALIZER: Final = (
    "rows are written as key.converter and value.converter say, or as bytes or text without them: remove it"
)
_NO_COUNTERPART: Final[Mapping[str, str]] = {
    **client_properties.NO_COUNTERPART,
    "key.serializer": _SERIALIZER,
    "value.serializer": _SERIALIZER,
}
"""The properties that are refused, each with what to use instead.

In a worker, the property of a serializer is ignored, as in Connect; for a sink it is an error.
"""


def _sink_name(name: str, value: Any) -> None:
    """Raise ConfigError for a name that cannot be part of a transactional id."""
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
    """Return a new, unique key: a write without a run must not fence other writes."""
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
        "The sink's name, under which its progress is kept. It is also part of the transactional id. Unset: the id of "
        "the streaming query with the topic; for write_kafka the topic.",
        validator=_sink_name,
    ).define(
        "key.columns", _T.LIST, "", _I.MEDIUM,
        "The columns that become the record's key: one column as its value, several as a struct. The record's value "
        "is then a struct of all columns, which value.converter converts.",
    ).define(
        "key.converter", _T.CLASS, None, _I.MEDIUM,
        "The converter of keys. Unset: BINARY is written unchanged, other simple types as text.",
    ).define(
        "value.converter", _T.CLASS, None, _I.MEDIUM,
        "The converter of values. Unset: BINARY is written unchanged, other simple types as text. Required for "
        "DataFrames without a column `value`: their rows become structs.",
    ).define(
        "header.converter", _T.CLASS, None, _I.LOW,
        "The converter of headers. Unset: BINARY is written unchanged, other types as by SimpleHeaderConverter.",
    ).define(
        "transforms", _T.LIST, "", _I.LOW, "The aliases of transforms, as in a connector.",
    ).define(
        "predicates", _T.LIST, "", _I.LOW, "The aliases of predicates, as in a connector.",
    )  # fmt: skip


def _define_progress(definitions: ConfigDef) -> None:
    definitions.define(
        "first.batch", _T.LONG, 0, _I.LOW,
        "For a sink without any progress: the first batch id that it writes; batches with lower ids are taken to be "
        "in Kafka already. Set it for a query that continues the checkpoint of another sink, and after the loss of "
        "the sink's progress.",
        validator=at_least(0, nullable=False),
    ).define(
        "sink.storage.topic", _T.STRING, "fencepost-sinks", _I.LOW,
        "The compacted topic with the progress of all sinks. It is created if it is missing.",
        validator=topic_name,
    ).define(
        "sink.storage.replication.factor", _T.SHORT, None, _I.LOW,
        "The number of replicas with which sink.storage.topic is created. Unset: 3, or 1 in a cluster of one broker.",
        validator=replication_factor,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """The checked configuration of a sink. `properties` has all properties, without the prefix `kafka.`."""

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
        """Check a sink's options. Options for Kafka's clients may have the prefix `kafka.`, as in Spark's own sink.

        From now on, passwords in the options are hidden in messages. Raises ConfigError for the first invalid option.
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
        """The topic with the ledgers of writes by `format("fencepost")`."""
        return f"{self.storage_topic}-tasks"

    def topic_gate(self, sink: str) -> TopicGate:
        """Return the check that each row's topic must pass.

        The check refuses the topics in which sinks keep their progress and their ledgers: rows there could be
        overwritten, or block the reading of these topics.
        """
        reasons = {
            topic: f"A row of sink {sink} is for topic {topic}, which holds the progress of sinks, or of their tasks: send "
            "it to another topic, or set sink.storage.topic"
            for topic in (self.storage_topic, self.tasks_topic)
        }
        return TopicGate(None, {topic: RefusedTopic(why, "sink.storage.topic") for topic, why in reasons.items()})

    def sink_of_query(self, query: str) -> str:
        """Return the name of a streaming query's sink. `query` is the query's id, from its checkpoint."""
        return self.name or (query if self.topic is None else f"{query}-{self.topic}")

    def key_of(self, run: object | None) -> SinkKey:
        """Return the key of a batch's progress.

        Raises ConfigError for an invalid run, and if a sink without a name has a run.
        """
        if run is None:
            return _of_single_write(self.name or self.topic or "topics")
        sink = self.name or self.topic
        if sink is None:
            raise ConfigError("A run needs a name, because each row names its topic: set name", name="name")
        # A date or number is the same run as its text, because the options of a data source are texts.
        name = _text(run)
        if not name.strip():
            raise ConfigError(
                "run is empty, so the next write with an empty one would be skipped: name the run", name="run"
            )
        _check_ends("run", name)
        key = SinkKey(sink, name)
        if len(key.transactional_id.encode()) > _LONGEST_ID:
            raise ConfigError(
                f"The name of a run of sink {sink} has {len(name)} characters, too many for a transactional id: shorten it",
                name="run",
            )
        return key


def merged_options(
    arguments: Mapping[str, Any], options: Mapping[str, Any] | None, more_options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a call in one dict. Raises ConfigError for an option that is given with two values.

    `arguments` are the named parameters, with None for a parameter that is not given. `more_options` are the other
    keyword arguments.
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
    """Return all options as text, without Kafka's prefix.

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
    """Raise ConfigError for a name that starts or ends with a blank: the trimmed name may be another sink's."""
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
