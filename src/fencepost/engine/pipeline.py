"""The pipeline of a connector's records between `poll` and Kafka, as configured."""

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
    """A connector's transforms in order, its converters, the topic for rows that name no topic, and its `errors.*`.

    `given` is the name, in messages, of a DataFrame whose rows pass through the pipeline. `topic_prefix` is put before
    the names of all topics, so that a trial run of a connector writes to separate topics. Without its transforms, the
    pipeline can be pickled to Spark's executors, because converters contain only plain data.
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
        """Return the topic to which records for `topic` are written.

        Raises ConfigError if the name is too long with the prefix.
        """
        name = self.topic_prefix + topic
        if self.topic_prefix and len(name) > topic_names.LONGEST >= len(topic):
            raise ConfigError(
                f"The records of topic {topic} cannot be redirected: with {self.topic_prefix} before it, the name has more "
                f"than {topic_names.LONGEST} characters. Give the connector a shorter topic"
            )
        return name

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic for dead letters, None if there are no dead letters."""
        topic = self.errors.dead_letter_topic
        return None if topic is None else self.destination(topic)

    @property
    def transform_names(self) -> str:
        """The class names of all transforms, for messages. Catalyst combines them, so the failing one is unknown."""
        return ", ".join(type(step.transform).__name__ for step in self.transforms)

    def place_of(self, cause: str) -> str:
        """Return the property that the cause of a refusal points to, as ` (name)`; empty if unknown.

        A cause from Spark ends with the SQL text that failed, which shows the transform.
        """
        _, _, fragment = cause.rpartition(" in ")
        aliases = [step.alias for step in self.transforms if step.alias]
        found = property_with(self.transforms, fragment)
        if not found and len(aliases) == len(self.transforms) == 1 and "transforms." not in cause:
            found = f"transforms.{aliases[0]}"
        return f" ({found})" if found else ""

    @property
    def keeps_topics(self) -> bool:
        """Whether records keep the topics that the connector gives them.

        Only the classes of the transforms are checked.
        """
        return all(_keeps_topics(step.transform) for step in self.transforms)

    @property
    def may_multiply(self) -> bool:
        """Whether one record may become several. Without an attribute `multiplies`, a transform may multiply records."""
        return any(getattr(step.transform, "multiplies", True) for step in self.transforms)

    @property
    def takes_header_texts(self) -> bool:
        """Whether all transforms can take a record's headers as texts.

        User-defined transforms of records get bytes instead.
        """
        return all(
            (isinstance(step.transform, _BUILT_IN) or getattr(step.transform, "on", "record") != "record")
            and isinstance(step.predicate, RecordPredicate | None)
            for step in self.transforms
        )

    def of_bytes(self) -> Pipeline:
        """The pipeline for records that are already bytes.

        Raises ConfigError if a transform needs more than the topic and the headers' names.
        """
        for step in self.transforms:
            for plugin, role in ((step.transform, "type"), (step.predicate, "predicate")):
                if plugin is not None and not is_without_content(plugin):
                    raise ConfigError(
                        f"{type(plugin).__name__} cannot be used: the connector returns the bytes of Kafka's records, which "
                        "have no fields any more. Only transforms and predicates that need no key, no value and no value of "
                        "a header can be: RegexRouter, TimestampRouter, DropHeaders, Filter; TopicNameMatches, HasHeaderKey, "
                        "RecordIsTombstone",
                        name=f"transforms.{step.alias}.{role}" if step.alias else "transforms",
                    )
        unchanged = ByteArrayConverter()
        return replace(self, key_converter=unchanged, value_converter=unchanged)

    def without_transforms(self) -> Pipeline:
        """The part of the pipeline that executors need."""
        return replace(self, transforms=()) if self.transforms else self


def _keeps_topics(transform: Transformation) -> bool:
    if isinstance(transform, RecordTransformation):
        return transform.keeps_topics
    return isinstance(transform, PartTransformation)
