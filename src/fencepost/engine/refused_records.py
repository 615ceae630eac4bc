"""Records that a reader, transform or converter refused, for logging and counting.

Refused records are plain data, and picklable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from fencepost.engine.error_counts import ErrorCounts

_log: Final = logging.getLogger(__name__)


class Stage(StrEnum):
    """A stage in the processing of a record. The names are Connect's."""

    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A refused record, as text.

    `topic` is None if it is unknown. `origin` has the source partition and offset, if known. `content` shows the
    record, if that is allowed. `row` is the number of the row to show, if the worker still has to look it up.
    """

    stage: Stage
    plugin: str
    topic: str | None
    cause: str
    origin: str = ""
    content: str | None = None
    row: int | None = None

    def with_content(self, content: object) -> RefusedRecord:
        """Return this refused record with `content` as its text."""
        return replace(self, content=repr(content), row=None)

    def __str__(self) -> str:
        record = f"A record for topic {self.topic}" if self.topic else "A record"
        return f"{record} failed in the stage {self.stage} ({self.plugin}): {self.cause}.{self.origin}"


@dataclass(frozen=True, slots=True)
class Tally:
    """The numbers of errors of records. `listed` are the refused records to log.

    `causes` are the distinct causes of skipped records. At most two are kept, which is enough to know if there are
    several.
    """

    counts: ErrorCounts = field(default_factory=ErrorCounts)
    listed: tuple[RefusedRecord, ...] = ()
    causes: tuple[str, ...] = ()

    def plus(self, counts: ErrorCounts, *listed: RefusedRecord, causes: Iterable[str] = ()) -> Tally:
        """Return this tally with the given counts, records to log, and causes added."""
        distinct = dict.fromkeys((*self.causes, *causes))
        return Tally(self.counts + counts, (*self.listed, *listed), tuple(distinct)[:2])

    @property
    def only_cause(self) -> str | None:
        """The cause of all skipped records; None if there are several causes, or no skipped records."""
        return self.causes[0] if len(self.causes) == 1 else None


def log_refused(tally: Tally, whose: str) -> None:
    """Log a tally's listed records, and the number of other skipped records. Each message begins with `whose`."""
    for refused in tally.listed:
        shown = "" if refused.content is None else f" The record: {refused.content}"
        _log.error("%s: %s%s", whose, refused, shown)
    left = tally.counts.skipped - len(tally.listed)
    if tally.listed and left > 0:
        _log.error("%s: %d more records of the same batch were skipped", whose, left)
