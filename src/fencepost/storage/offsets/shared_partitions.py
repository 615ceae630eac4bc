"""Source partitions that two tasks write at the same time: the decision, from the commits in an offsets topic; no I/O.

Each run of a task has a span for each source partition: from its first to its last commit of it.

    task 0   ├────────────┤                    spans that follow each other: the source partition moved
    task 1                  ├───────┤

    task 0   ├────────────┤                    spans that overlap: both tasks were alive, and both read the partition
    task 1          ├────────────┤

Commits are ordered by their commit times (see codec). A task reads the offsets before it starts, and its commits have
later times than all that it read. So the spans of a task that is fenced before its successor starts cannot overlap the
successor's, whatever the clocks show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fencepost.storage.offsets.codec import CommitAuthor


@dataclass(frozen=True, slots=True)
class Span:
    """The times of the first and last commit of a source partition in one run of a task."""

    author: CommitAuthor
    first: int
    last: int

    def overlaps(self, other: Span) -> bool:
        """Whether one of the two committed between the commits of the other."""
        return max(self.first, other.first) <= min(self.last, other.last)


@dataclass(frozen=True, slots=True)
class SharedPartition:
    """A source partition that two tasks write: its JSON text, and the transactional ids of the tasks."""

    connector: str
    partition: str
    tasks: tuple[str, str]


def with_commit(spans: tuple[Span, ...], author: CommitAuthor, time: int) -> tuple[tuple[Span, ...], Span | None]:
    """Return the spans of a source partition with one more commit, and the overlapping span of another task.

    Kept are the span of `author`, and of the other tasks the one with the latest commit.
    """
    own = next((span for span in spans if span.author == author), Span(author, time, time))
    own = replace(own, first=min(own.first, time), last=max(own.last, time))
    others = [span for span in spans if span.author.task != author.task]
    latest = max(others, key=lambda span: span.last, default=None)
    kept = (own,) if latest is None else (latest, own)
    return kept, latest if latest is not None and latest.overlaps(own) else None


class SharedPartitions:
    """The commits of all connectors so far; counts those that show a shared source partition."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], tuple[Span, ...]] = {}
        self._found: dict[str, tuple[int, SharedPartition]] = {}

    def commit(self, connector: str, partition: str, author: CommitAuthor, time: int) -> None:
        """Add a commit of a source partition, which is named by its JSON text."""
        spans = self._spans.get((connector, partition), ())
        self._spans[connector, partition], other = with_commit(spans, author, time)
        if other is not None:
            shared = SharedPartition(connector, partition, (other.author.task, author.task))
            self._found[connector] = (self.found(connector)[0] + 1, shared)

    def forget(self, connector: str, partition: str) -> None:
        """Forget the commits of a source partition."""
        self._spans.pop((connector, partition), None)

    def found(self, connector: str) -> tuple[int, SharedPartition | None]:
        """Return the number of commits that showed a shared source partition of a connector, and the last finding."""
        return self._found.get(connector, (0, None))
