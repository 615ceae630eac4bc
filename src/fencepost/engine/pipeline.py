"""The pipeline of a connector's records between `poll` and Kafka, from its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fencepost.api import topic_names
from fencepost.api.errors import ConfigError
from fencepost.api.plugin import Converter, HeaderConverter, Transformation
from fencepost.config.error_handling import ErrorHandling
from fencepost.converters import ByteArrayConverter
from fencepost.transforms.base import PartTransformation, RecordPredicate, RecordTransformation, is_without_content
from fencepost.transforms.chain import Step, property_with

_BUILT_IN: Final = (PartTransformation, RecordTransformation)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The transforms of a connector, in order, its converters, the topic for rows that name none, and its `errors.*`.

    `given` is the name of the passing DataFrame in messages. `topic_prefix` is put before the names of all written
    topics: a check of a connector has its own topics. `without_transforms` is pickled to Spark's executors: the
    converters hold only plain data.
    """

    transforms: Sequence[Step]
    key_converter: Converter
    value_converter: Converter
    header_converter: HeaderConverter
    default_topic: str | None = None
    errors: ErrorHandling = field(default_factory=ErrorHandling)
    given: str = "a SourceBatch"
    topic_prefix: str = ""

    def destination(self, topic: str) -> str:
        """Return the topic to write to for records of a topic. Raises ConfigError for a name that is too long with it."""
        name = self.topic_prefix + topic
        if self.topic_prefix and len(name) > topic_names.LONGEST >= len(topic):
            raise ConfigError(
                f"The records of topic {topic} cannot be redirected: with {self.topic_prefix} before it, the name has more "
                f"than {topic_names.LONGEST} characters. Give the connector a shorter topic"
            )
        return name

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic to write dead letters to, None to drop them."""
        topic = self.errors.dead_letter_topic
        return None if topic is None else self.destination(topic)

    @property
    def transform_names(self) -> str:
        """The classes of the transforms, in order, for messages: Catalyst makes one step of them."""
        return ", ".join(type(step.transform).__name__ for step in self.transforms)

    def place_of(self, cause: str) -> str:
        """Return the property to which the cause of a refusal points, in parentheses after a space; nothing if none is known.

        A cause of Spark's ends with the part of the expression that failed.
        """
        _, _, fragment = cause.rpartition(" in ")
        aliases = [step.alias for step in self.transforms if step.alias]
        found = property_with(self.transforms, fragment)
        if not found and len(aliases) == len(self.transforms) == 1 and "transforms." not in cause:
            found = f"transforms.{aliases[0]}"
        return f" ({found})" if found else ""

    @property
    def keeps_topics(self) -> bool:
        """Whether records keep the topics that the connector gives them, judging by the transforms' classes."""
        return all(_keeps_topics(step.transform) for step in self.transforms)

    @property
    def may_multiply(self) -> bool:
        """Whether a record may become several, judging by the transforms: authors' own may do so."""
        return any(getattr(step.transform, "multiplies", True) for step in self.transforms)

    @property
    def takes_header_texts(self) -> bool:
        """Whether transforms take a record's headers as texts, and not as the bytes that authors' own are given."""
        return all(
            (isinstance(step.transform, _BUILT_IN) or getattr(step.transform, "on", "record") != "record")
            and isinstance(step.predicate, RecordPredicate | None)
            for step in self.transforms
        )

    def of_bytes(self) -> Pipeline:
        """The pipeline for records that are bytes already. Raises ConfigError if a transform needs more than topic and headers."""
        for step in self.transforms:
            for plugin in (step.transform, step.predicate):
                if plugin is not None and not is_without_content(plugin):
                    raise ConfigError(
                        f"{type(plugin).__name__} cannot be used: the connector returns the bytes of Kafka's records, which "
                        "have no fields any more. Only transforms and predicates that need no key, no value and no value of "
                        "a header can be: RegexRouter, TimestampRouter, DropHeaders, Filter; TopicNameMatches, HasHeaderKey, "
                        "RecordIsTombstone",
                        name="transforms",
                    )
        unchanged = ByteArrayConverter()
        return replace(self, key_converter=unchanged, value_converter=unchanged)

    def without_transforms(self) -> Pipeline:
        """The part that executors need."""
        return replace(self, transforms=()) if self.transforms else self


def _keeps_topics(transform: Transformation) -> bool:
    if isinstance(transform, RecordTransformation):
        return transform.keeps_topics
    return isinstance(transform, PartTransformation)
