"""The handling of records that cannot be read, transformed or converted (KIP-298, `errors.*`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.errors import ConfigError
from fencepost.api.topic_names import topic_name
from fencepost.config.validators import at_least, one_of

_T = ConfigDef.Type
_MEDIUM: Final = ConfigDef.Importance.MEDIUM

FOR_EVER: Final = -1
"""The value of `errors.retry.timeout` that means no limit."""

DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"


class Tolerance(StrEnum):
    """The values of the connector property `errors.tolerance`."""

    NONE = "none"
    ALL = "all"


_DEAD_LETTERS_NEVER: Final = (
    f"The property {DEAD_LETTER_TOPIC} has no effect with errors.tolerance=none, where the first refused record ends "
    "the write: set errors.tolerance=all, or remove it"
)


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """A connector's `errors.*` properties. Times are in milliseconds."""

    tolerance: Tolerance = Tolerance.NONE
    retry_timeout_ms: int = 0
    retry_delay_max_ms: int = 60_000
    log_enable: bool = False
    log_include_messages: bool = False
    dead_letter_topic: str | None = None
    """The topic for refused records; None to drop them."""

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> ErrorHandling:
        """Read the parsed values of the properties that `define_errors` defines.

        Raises ConfigError for a dead letter queue that could never receive a record.
        """
        tolerance = Tolerance(values["errors.tolerance"].lower())
        if values[DEAD_LETTER_TOPIC] and tolerance is Tolerance.NONE:
            raise ConfigError(_DEAD_LETTERS_NEVER, name=DEAD_LETTER_TOPIC)
        return cls(
            tolerance=tolerance,
            retry_timeout_ms=values["errors.retry.timeout"],
            retry_delay_max_ms=values["errors.retry.delay.max.ms"],
            log_enable=values["errors.log.enable"],
            log_include_messages=values["errors.log.include.messages"],
            dead_letter_topic=values[DEAD_LETTER_TOPIC] or None,
        )

    @property
    def stops_at_first(self) -> bool:
        """Whether the first refused record fails its batch, without a retry."""
        return self.tolerance is Tolerance.NONE and self.retry_timeout_ms == 0


@dataclass(frozen=True, slots=True)
class ErrorTexts:
    """The parts of the properties' documentation that differ between connectors and sinks of Spark queries."""

    tolerance: str = (
        "What happens to a record that cannot be read, transformed or converted, or that names a topic, partition or "
        "timestamp that no record can have. none: the task fails. all: the record is skipped. With both values, the "
        "task fails if Kafka refuses a record, or if the record's topic does not have its partition."
    )
    dead_letters: str = (
        "The topic for records that errors.tolerance=all skips, written in the same transaction as the other records "
        "and the source offsets. Headers __connect.errors.* name the error, the stage and the plugin. Kafka Connect "
        "has this property for sinks only. Unset: skipped records are dropped."
    )
    logged: str = "record that cannot be read, transformed or converted"


_OF_CONNECTORS: Final = ErrorTexts()


def define_errors(definitions: ConfigDef, texts: ErrorTexts = _OF_CONNECTORS) -> None:
    """Define the properties."""
    group = "Error Handling"
    definitions.define(
        "errors.retry.timeout", _T.LONG, 0, _MEDIUM,
        "How long a transform or converter that raises RetriableError is retried for one batch, in milliseconds; 0: "
        "not at all, -1: without limit.",
        validator=at_least(FOR_EVER, nullable=False), group=group, order_in_group=1, width=ConfigDef.Width.MEDIUM,
    ).define(
        "errors.retry.delay.max.ms", _T.LONG, 60_000, _MEDIUM,
        "The longest pause between two attempts within errors.retry.timeout, in milliseconds. The first pause is 300 "
        "ms, and each further pause is twice as long.",
        validator=at_least(1, nullable=False), group=group, order_in_group=2, width=ConfigDef.Width.MEDIUM,
    ).define(
        "errors.tolerance", _T.STRING, str(Tolerance.NONE), _MEDIUM, texts.tolerance,
        validator=one_of([str(value) for value in Tolerance]), group=group, order_in_group=3,
        width=ConfigDef.Width.SHORT,
    ).define(
        "errors.log.enable", _T.BOOLEAN, False, _MEDIUM,
        f"Whether each {texts.logged} is logged, with the stage, the plugin and the reason. Of one batch, or of one Spark "
        "executor's part of it, the first 1,000 are logged, and the number of the others.",
        group=group, order_in_group=4, width=ConfigDef.Width.SHORT,
    ).define(
        "errors.log.include.messages", _T.BOOLEAN, False, _MEDIUM,
        "Whether the log of errors.log.enable also shows the record, which may contain confidential data.",
        group=group, order_in_group=5, width=ConfigDef.Width.SHORT,
    ).define(
        DEAD_LETTER_TOPIC, _T.STRING, "", _MEDIUM, texts.dead_letters,
        validator=_topic_or_nothing, group=group, order_in_group=6, width=ConfigDef.Width.MEDIUM,
    )  # fmt: skip


def _topic_or_nothing(name: str, value: Any) -> None:
    if value:
        topic_name(name, value)


def dead_letter_errors(properties: Mapping[str, str]) -> list[ConfigValue]:
    """Return the error of a dead letter queue that could never receive a record, on the property that causes it."""
    topic = properties.get(DEAD_LETTER_TOPIC, "").strip()
    if not topic or properties.get("errors.tolerance", str(Tolerance.NONE)).strip().lower() != Tolerance.NONE:
        return []
    return [ConfigValue(DEAD_LETTER_TOPIC, topic, errors=[_DEAD_LETTERS_NEVER])]
