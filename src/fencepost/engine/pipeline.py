"""The pipeline of a connector's records between `poll` and Kafka, from its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fencepost.api.plugin import Converter, HeaderConverter, Transformation
from fencepost.config.error_handling import ErrorHandling
from fencepost.transforms.base import PartTransformation
from fencepost.transforms.chain import Step
from fencepost.transforms.new_record_state import ExtractNewRecordState


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The transforms of a connector, in order, its converters, the topic for rows that name none, and its `errors.*`.

    `given` is what messages call a DataFrame that passes through.
    `without_transforms` is pickled to Spark's executors: the converters hold only plain data.
    """

    transforms: Sequence[Step]
    key_converter: Converter
    value_converter: Converter
    header_converter: HeaderConverter
    default_topic: str | None = None
    errors: ErrorHandling = field(default_factory=ErrorHandling)
    given: str = "a SourceBatch"

    @property
    def transform_names(self) -> str:
        """The classes of the transforms, in order, for messages: Catalyst makes one step of them."""
        return ", ".join(type(step.transform).__name__ for step in self.transforms)

    @property
    def keeps_topics(self) -> bool:
        """Whether records go to the topics that the connector gives them, as far as the transforms' classes tell."""
        return all(_keeps_topics(step.transform) for step in self.transforms)

    def without_transforms(self) -> Pipeline:
        """The part that executors need."""
        return replace(self, transforms=()) if self.transforms else self


def _keeps_topics(transform: Transformation) -> bool:
    if isinstance(transform, ExtractNewRecordState):
        return transform.keeps_topics
    return isinstance(transform, PartTransformation)
