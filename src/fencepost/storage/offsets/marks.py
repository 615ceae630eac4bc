"""fencepost's headers of offset records, which Connect's own workers ignore.

`fencepost.commit.time` orders the commits of a source partition over all topics and workers: milliseconds of the
writer's clock, but always more than the highest value that the writer has read for the source partition. So a slow
clock is harmless (a hybrid logical clock). For a record without the header, its timestamp is used.

`fencepost.committed.by` names the run of the task that committed, if the task delivers exactly once: two runs that
commit the same source partition at the same time are a mistake of the connector (see shared_partitions).

`fencepost.copied.from` marks a copy, and names the topic that holds the commit itself: `topic`, or `cluster/topic`
if that is on another Kafka cluster than the worker's topics.

`fencepost.former.topics` names former offsets topics of the connector, if the newest commit of one of its source
partitions was only there when the task read its offsets. The copies that named these topics may be replaced by commits of
other source partitions, and a task that starts later must find them all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from fencepost.kafka.records.columns import RecordHeaders

COMMIT_TIME: Final = "fencepost.commit.time"
COMMITTED_BY: Final = "fencepost.committed.by"
COPIED_FROM: Final = "fencepost.copied.from"
FORMER_TOPICS: Final = "fencepost.former.topics"

_SEPARATOR: Final = "/"
_TIME: Final = re.compile(rb"[0-9]{1,18}")
"""The maximum number of digits of milliseconds: more are not a time, and Python refuses to parse thousands."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The offsets topic that holds a commit. `cluster_id` is None for the Kafka cluster of the worker's own topics."""

    topic: str
    cluster_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the `str` of an origin; a topic's name has no slash."""
        cluster_id, separator, topic = text.rpartition(_SEPARATOR)
        return cls(topic, cluster_id if separator else None)

    def __str__(self) -> str:
        return self.topic if self.cluster_id is None else f"{self.cluster_id}{_SEPARATOR}{self.topic}"


@dataclass(frozen=True, slots=True)
class CommitAuthor:
    """A task, by its transactional id, and a text without spaces that no other run of the task has.

    Commits after a task has read offsets again count as another run: it may know other tasks' commits then.
    """

    task: str
    run: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what `str` of a run made, None for any other text."""
        run, separator, task = text.partition(" ")
        return cls(task, run) if separator else None

    def __str__(self) -> str:
        return f"{self.run} {self.task}"


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """When an offset was committed, in milliseconds, for a copy where, and by whom if that is known.

    Larger times are later commits. `former` are topics that have offsets of other source partitions.
    """

    time: int
    origin: Origin | None = None
    author: CommitAuthor | None = None
    former: frozenset[Origin] = frozenset()

    def headers(self) -> RecordHeaders:
        """Return the headers of a record with this mark."""
        former = " ".join(sorted(map(str, self.former))) or None
        parts = {COMMIT_TIME: self.time, COMMITTED_BY: self.author, COPIED_FROM: self.origin, FORMER_TOPICS: former}
        return tuple((name, str(part).encode()) for name, part in parts.items() if part is not None)


def mark_of(headers: Iterable[tuple[str, bytes | None]], timestamp: int) -> OffsetMark:
    """Return the mark of a record with these headers; a missing or malformed time is replaced by `timestamp`."""
    values = {name: value for name, value in headers if value}
    time, origin, author = values.get(COMMIT_TIME), values.get(COPIED_FROM), values.get(COMMITTED_BY)
    return OffsetMark(
        int(time) if time is not None and _TIME.fullmatch(time) else timestamp,
        None if origin is None else Origin.parse(origin.decode(errors="replace")),
        None if author is None else CommitAuthor.parse(author.decode(errors="replace")),
        frozenset(map(Origin.parse, values.get(FORMER_TOPICS, b"").decode(errors="replace").split())),
    )
