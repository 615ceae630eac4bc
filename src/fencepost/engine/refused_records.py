"""Records that a reader, transform or converter refused, for logging and counting. Plain data, picklable."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from fencepost.engine.error_counts import ErrorCounts

_log: Final = logging.getLogger(__name__)


class Stage(StrEnum):
    """A stage of a record's processing, under Connect's names."""

    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A refused record, as text.

    `topic` is None if unknown; `origin` has the source partition and offset, if known; `content` shows the record, if
    that is allowed. `row` is the number of the row to show instead, if the worker has yet to look that row up.
    """

    stage: Stage
    plugin: str
    topic: str | None
    cause: str
    origin: str = ""
    content: str | None = None
    row: int | None = None

    def with_content(self, content: object) -> RefusedRecord:
        """Return this with another record to show."""
        return replace(self, content=repr(content), row=None)

    def __str__(self) -> str:
        record = f"A record for topic {self.topic}" if self.topic else "A record"
        return f"{record} failed in the stage {self.stage} ({self.plugin}): {self.cause}.{self.origin}"


@dataclass(frozen=True, slots=True)
class Tally:
    """The errors of records; `listed` are the refused ones to log.

    `causes` are the causes of the skipped ones, each once, and the first two alone: that tells one from several.
    """

    counts: ErrorCounts = field(default_factory=ErrorCounts)
    listed: tuple[RefusedRecord, ...] = ()
    causes: tuple[str, ...] = ()

    def plus(self, counts: ErrorCounts, *listed: RefusedRecord, causes: Iterable[str] = ()) -> Tally:
        """Return this with more counts, more records to log, and more causes."""
        distinct = dict.fromkeys((*self.causes, *causes))
        return Tally(self.counts + counts, (*self.listed, *listed), tuple(distinct)[:2])

    @property
    def only_cause(self) -> str | None:
        """The cause of all skipped records; None if there are several, or no such records."""
        return self.causes[0] if len(self.causes) == 1 else None


def log_refused(tally: Tally, whose: str) -> None:
    """Log the refused records in a tally, and the number of further skipped ones. `whose` begins each message."""
    for refused in tally.listed:
        shown = "" if refused.content is None else f" The record: {refused.content}"
        _log.error("%s: %s%s", whose, refused, shown)
    left = tally.counts.skipped - len(tally.listed)
    if tally.listed and left > 0:
        _log.error("%s: %d more records of the same batch were skipped", whose, left)
