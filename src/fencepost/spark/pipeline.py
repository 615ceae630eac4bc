"""What a connector's configuration makes of its records between `poll` and Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.transforms.chain import Step


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The transforms of a connector, in order, its converters, and the topic for rows that name none.

    `without_transforms` is what travels to Spark's executors, by pickle: the converters hold plain data only.
    """

    transforms: Sequence[Step]
    key_converter: Converter
    value_converter: Converter
    header_converter: HeaderConverter
    default_topic: str | None = None

    def without_transforms(self) -> Pipeline:
        """The part that executors need."""
        return replace(self, transforms=()) if self.transforms else self
