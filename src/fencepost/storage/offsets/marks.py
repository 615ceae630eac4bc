"""What fencepost writes into the headers of offset records, which Connect's own workers ignore.

`fencepost.commit.time` orders the commits of a source partition over all topics and workers: milliseconds of the
writer's clock, but always more than the highest value that the writer has read for the source partition. So a clock
that is behind does no harm (a hybrid logical clock). A record without it counts with its timestamp.

`fencepost.copied.from` marks a copy, and names the topic that holds the commit itself: `topic`, or `cluster/topic`
if that is on another Kafka cluster than the worker's topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from fencepost.kafka.records.columns import RecordHeaders

COMMIT_TIME: Final = "fencepost.commit.time"
COPIED_FROM: Final = "fencepost.copied.from"

_SEPARATOR: Final = "/"
_TIME: Final = re.compile(rb"[0-9]{1,18}")
"""Milliseconds as anybody may have written them: more digits are no time, and Python refuses to read thousands."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The offsets topic that holds a commit. `cluster_id` is None for the Kafka cluster of the worker's own topics."""

    topic: str
    cluster_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what `str` of an origin made; a topic's name has no slash."""
        cluster_id, separator, topic = text.rpartition(_SEPARATOR)
        return cls(topic, cluster_id if separator else None)

    def __str__(self) -> str:
        return self.topic if self.cluster_id is None else f"{self.cluster_id}{_SEPARATOR}{self.topic}"


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """When an offset was committed, in milliseconds, and for a copy, where. Larger times are later commits."""

    time: int
    origin: Origin | None = None

    def headers(self) -> RecordHeaders:
        """Return the headers of a record with this mark."""
        time = (COMMIT_TIME, b"%d" % self.time)
        return (time,) if self.origin is None else (time, (COPIED_FROM, str(self.origin).encode()))


def mark_of(headers: Iterable[tuple[str, bytes | None]], timestamp: int) -> OffsetMark:
    """Return the mark of a record with these headers; what is missing or malformed is made up for by `timestamp`."""
    values = {name: value for name, value in headers if value}
    time, origin = values.get(COMMIT_TIME), values.get(COPIED_FROM)
    return OffsetMark(
        int(time) if time is not None and _TIME.fullmatch(time) else timestamp,
        None if origin is None else Origin.parse(origin.decode(errors="replace")),
    )
