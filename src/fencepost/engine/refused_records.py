"""Records that a reader, transform or converter refused, for logging and counting. Plain data, picklable."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from enum import StrEnum

from fencepost.engine.error_counts import ErrorCounts


class Stage(StrEnum):
    """A stage of a record's processing, under Connect's names."""

    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A refused record, as text.

    `topic` is None if unknown; `origin` has the source partition and offset, if known; `content` shows the record, if
    that is allowed.
    """

    stage: Stage
    plugin: str
    topic: str | None
    cause: str
    origin: str = ""
    content: str | None = None

    def __str__(self) -> str:
        record = f"A record for topic {self.topic}" if self.topic else "A record"
        return f"{record} failed in the stage {self.stage} ({self.plugin}): {self.cause}.{self.origin}"


@dataclass(frozen=True, slots=True)
class Tally:
    """The errors of records; `listed` are the refused ones to log."""

    counts: ErrorCounts = field(default_factory=ErrorCounts)
    listed: tuple[RefusedRecord, ...] = ()

    def plus(self, counts: ErrorCounts, *listed: RefusedRecord) -> Tally:
        """Return this with more counts, and more records to log."""
        mine, more = (astuple(each) for each in (self.counts, counts))
        return Tally(ErrorCounts(*(a + b for a, b in zip(mine, more, strict=True))), (*self.listed, *listed))
