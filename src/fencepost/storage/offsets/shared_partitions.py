"""Decides from the commits in an offsets topic whether two tasks write a source partition at the same time. No I/O.

Each run of a task has a span for each source partition: from the run's first to its last commit of that partition.

    task 0   ├────────────┤                    spans that follow each other: the source partition moved
    task 1                  ├───────┤

    task 0   ├────────────┤                    spans that overlap: both tasks were alive, and both read the partition
    task 1          ├────────────┤

Commits are ordered by their commit times (see codec). A task reads the offsets before it starts, and its commits have
later times than all commits that it has read. So if a task is fenced before its successor starts, its spans cannot
overlap the successor's, whatever the clocks show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fencepost.storage.offsets.codec import CommitAuthor


@dataclass(frozen=True, slots=True)
class Span:
    """The times of the first and the last commit of a source partition in one run of a task."""

    author: CommitAuthor
    first: int
    last: int

    def overlaps(self, other: Span) -> bool:
        """Whether one of the two runs committed between the first and the last commit of the other run."""
        return max(self.first, other.first) <= min(self.last, other.last)


@dataclass(frozen=True, slots=True)
class SharedPartition:
    """A source partition that two tasks write: its JSON text, and the transactional ids of the tasks."""

    connector: str
    partition: str
    tasks: tuple[str, str]


def with_commit(spans: tuple[Span, ...], author: CommitAuthor, time: int) -> tuple[tuple[Span, ...], Span | None]:
    """Add a commit to the spans of a source partition. Return the new spans, and an overlapping span of another task.

    Two spans are kept: the span of `author`, and the other tasks' span with the latest commit.
    """
    own = next((span for span in spans if span.author == author), Span(author, time, time))
    own = replace(own, first=min(own.first, time), last=max(own.last, time))
    others = [span for span in spans if span.author.task != author.task]
    latest = max(others, key=lambda span: span.last, default=None)
    kept = (own,) if latest is None else (latest, own)
    return kept, latest if latest is not None and latest.overlaps(own) else None


class SharedPartitions:
    """The commits of all connectors so far. Counts the commits that show a shared source partition."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], tuple[Span, ...]] = {}
        self._found: dict[str, tuple[int, SharedPartition]] = {}

    def commit(self, connector: str, partition: str, author: CommitAuthor, time: int) -> None:
        """Add a commit of a source partition, given by its JSON text."""
        spans = self._spans.get((connector, partition), ())
        self._spans[connector, partition], other = with_commit(spans, author, time)
        if other is not None:
            shared = SharedPartition(connector, partition, (other.author.task, author.task))
            self._found[connector] = (self.found(connector)[0] + 1, shared)

    def forget(self, connector: str, partition: str) -> None:
        """Forget the commits of a source partition."""
        self._spans.pop((connector, partition), None)

    def found(self, connector: str) -> tuple[int, SharedPartition | None]:
        """Return how many of a connector's commits have shown a SharedPartition, and the last one."""
        return self._found.get(connector, (0, None))
