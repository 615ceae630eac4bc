"""Finds the last committed records of a topic, backwards from its end.

span: offsets before the end of each partition ──> read up to the end ──> enough records? ──> wider span, again

The offsets of aborted records and of transaction markers have no visible record. So more offsets are read than records
are wanted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.kafka.consumer.fetch_decoder import HEADER_BYTES, RECORD_BYTES, ConsumedRecord
from fencepost.kafka.consumer.read_to_end import TopicReader
from fencepost.kafka.deadline import Deadline

_SPAN_GROWTH: Final = 4

Poll = Callable[[], list[ConsumedRecord]]
"""Polls a topic for its next records, like TopicReader.poll."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of a search for the last records. The search keeps the newest records, of at most `held_bytes`."""

    held_bytes: int
    deadline: Deadline


@dataclass(frozen=True, slots=True)
class LastRecords:
    """Records in the order of their timestamps. `complete` means that no limit ended the search early."""

    records: list[ConsumedRecord]
    complete: bool


def records_between(
    reader: TopicReader,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    poll: Poll,
    give_up: Callable[[], bool] = lambda: False,
) -> Iterator[ConsumedRecord]:
    """Yield the records from `starts` to `ends`, which are offsets by partition. Raises the errors of `poll`."""
    reader.seek(starts)
    while any(reader.positions.get(partition, end) < end for partition, end in ends.items()) and not give_up():
        for record in poll():
            # A partition that was added meanwhile is not in `ends`: its records are left out.
            if record.offset < ends.get(record.partition, 0):
                yield record


def last_records(
    reader: TopicReader,
    count: int,
    first: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    poll: Poll,
    span: int | None = None,
    limits: ReadLimits | None = None,
) -> LastRecords:
    """Return the last `count` records of all partitions together.

    `first` and `ends` are the first and the last stable offset of each partition. `span` is the number of offsets that
    are read at first; by default it is `count`. Raises the errors of `poll`.
    """
    span = span or count
    known: list[ConsumedRecord] = []
    while True:
        starts = {partition: max(first[partition], end - span) for partition, end in ends.items()}
        found = _Found(ends, count, limits)
        for record in records_between(reader, starts, ends, poll, found.is_late):
            found.add(record)
            if found.is_late():
                break
        if found.is_late():
            # If an earlier, shorter span was read completely, its records are the last ones. The read of the current
            # span may not have reached them.
            return LastRecords(known or found.last(), complete=False)
        known = found.last()
        if found.lacks:
            return LastRecords(known, complete=False)
        if all(found.count(partition) == count or starts[partition] == first[partition] for partition in ends):
            return LastRecords(known, complete=True)
        span *= _SPAN_GROWTH


class _Found:
    """Collects the last records of each partition. If these have too many bytes, it keeps only the newest."""

    def __init__(self, partitions: Iterable[int], count: int, limits: ReadLimits | None) -> None:
        self._kept: dict[int, deque[ConsumedRecord]] = {partition: deque() for partition in partitions}
        self._count = count
        self._limits = limits
        self._held = 0
        self.lacks = False
        """Whether records were left out because of their size."""

    def add(self, record: ConsumedRecord) -> None:
        kept = self._kept[record.partition]
        if self._limits is not None and _size(record) > self._limits.held_bytes:
            self.lacks = True
            return
        kept.append(record)
        self._held += _size(record)
        if len(kept) > self._count:
            self._held -= _size(kept.popleft())
        while self._limits is not None and self._held > self._limits.held_bytes:
            oldest = min(filter(None, self._kept.values()), key=lambda each: each[0].timestamp)
            self._held -= _size(oldest.popleft())
            self.lacks = True

    def count(self, partition: int) -> int:
        return len(self._kept[partition])

    def is_late(self) -> bool:
        return self._limits is not None and self._limits.deadline.passed

    def last(self) -> list[ConsumedRecord]:
        together = sorted(
            (record for kept in self._kept.values() for record in kept),
            key=lambda record: (record.timestamp, record.partition, record.offset),
        )
        return together[max(0, len(together) - self._count) :]


def _size(record: ConsumedRecord) -> int:
    headers = sum(HEADER_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
