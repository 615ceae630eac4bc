"""Checks that each number of numbered records appears once and in order. Memory grows with gaps, not with records.

Numbers of one source partition may be spread over the topic's partitions. They are ordered only within each of the
topic's partitions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

_SHOWN_GAPS: Final = 5


class NumberRanges:
    """A set of integers, stored as sorted runs of consecutive numbers."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        """The number of runs."""
        return len(self._starts)

    def add(self, number: int) -> bool:
        """Add a number; return whether it is new."""
        at = bisect_right(self._starts, number)
        if at and number <= self._ends[at - 1]:
            return False
        joins_left = at > 0 and self._ends[at - 1] == number - 1
        joins_right = at < len(self._starts) and self._starts[at] == number + 1
        if joins_left and joins_right:
            self._ends[at - 1] = self._ends.pop(at)
            del self._starts[at]
        elif joins_left:
            self._ends[at - 1] = number
        elif joins_right:
            self._starts[at] = number
        else:
            self._starts.insert(at, number)
            self._ends.insert(at, number)
        return True

    @property
    def lowest(self) -> int:
        """The lowest number. The set must not be empty."""
        return self._starts[0]

    @property
    def highest(self) -> int:
        """The highest number. The set must not be empty."""
        return self._ends[-1]

    def gaps(self, first: int) -> Iterable[tuple[int, int]]:
        """Yield the gaps from `first` to the highest number, as pairs of first and last missing number."""
        if first < self._starts[0]:
            yield first, self._starts[0] - 1
        for end, start in zip(self._ends, islice(self._starts, 1, None), strict=False):
            if start > first:
                yield max(end + 1, first), start - 1


@dataclass(frozen=True, slots=True)
class PartitionFindings:
    """The findings for one source partition.

    `last` is the highest number. `duplicates` counts the records whose number appeared before. `out_of_order` counts
    the records that follow a higher number in the same partition of the topic. `missing` has the first gaps, as pairs
    of the first and the last missing number. `lost` counts all missing numbers.
    """

    source_partition: str
    records: int
    first: int
    last: int
    lost: int
    duplicates: int
    out_of_order: int
    missing: tuple[tuple[int, int], ...]

    @property
    def sound(self) -> bool:
        """Whether every number appears once and in order."""
        return self.lost == self.duplicates == self.out_of_order == 0


@dataclass(frozen=True, slots=True)
class NumberFindings:
    """The findings for a topic: by source partition, and the number of unreadable records, with the first of them."""

    partitions: tuple[PartitionFindings, ...]
    skipped: int
    first_skipped: str | None

    @property
    def lost(self) -> int:
        """The number of missing numbers."""
        return sum(found.lost for found in self.partitions)

    @property
    def duplicates(self) -> int:
        """The number of records whose number appeared before."""
        return sum(found.duplicates for found in self.partitions)

    @property
    def out_of_order(self) -> int:
        """The number of records that follow one with a higher number."""
        return sum(found.out_of_order for found in self.partitions)

    @property
    def sound(self) -> bool:
        """Whether every record has a number, and every number appears once and in order."""
        return self.skipped == 0 and all(found.sound for found in self.partitions)


@dataclass(slots=True)
class _Seen:
    numbers: NumberRanges = field(default_factory=NumberRanges)
    highest: dict[int, int] = field(default_factory=dict)
    """The highest number, by partition of the topic."""
    records: int = 0
    duplicates: int = 0
    out_of_order: int = 0


class NumberCheck:
    """Processes records in the order of each partition of the topic.

    Every source partition begins at `first` if that is given, else at the lowest number found.
    """

    def __init__(self, first: int | None = None) -> None:
        self._first = first
        self._seen: dict[str, _Seen] = {}
        self._skipped = 0
        self._first_skipped: str | None = None

    def skip(self, where: str) -> None:
        """Count a record without a number or source partition; `where` names it."""
        self._skipped += 1
        self._first_skipped = self._first_skipped or where

    def see(self, source_partition: str, number: int, topic_partition: int) -> None:
        """Process a record."""
        seen = self._seen.setdefault(source_partition, _Seen())
        seen.records += 1
        if not seen.numbers.add(number):
            seen.duplicates += 1
        elif number < seen.highest.get(topic_partition, number):
            seen.out_of_order += 1
        else:
            seen.highest[topic_partition] = number

    def findings(self) -> NumberFindings:
        """Return the findings."""
        partitions = tuple(self._of(name, self._seen[name]) for name in sorted(self._seen))
        return NumberFindings(partitions, self._skipped, self._first_skipped)

    def _of(self, name: str, seen: _Seen) -> PartitionFindings:
        numbers = seen.numbers
        first = numbers.lowest if self._first is None else self._first
        return PartitionFindings(
            source_partition=name,
            records=seen.records,
            first=numbers.lowest,
            last=numbers.highest,
            lost=sum(end - start + 1 for start, end in numbers.gaps(first)),
            duplicates=seen.duplicates,
            out_of_order=seen.out_of_order,
            missing=tuple(islice(numbers.gaps(first), _SHOWN_GAPS)),
        )


@dataclass(frozen=True, slots=True)
class OffsetMismatch:
    """A source partition whose committed offset differs from the number of its last visible record.

    `visible` and `committed` are None if there is no such record or offset.
    """

    source_partition: str
    visible: int | None
    committed: str | None


def compare_offsets(
    visible: Mapping[str, int], committed: Iterable[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]
) -> tuple[OffsetMismatch, ...]:
    """Compare the last visible number of each source partition with the committed source offsets.

    A source partition is identified by the value of its only field; with several fields, by its JSON text, which
    matches nothing. Offsets are treated likewise. If `visible` only has the name "", the source partition may have any
    name.
    """
    offsets = {_only_value(partition): _only_value(offset) for partition, offset in committed if offset is not None}
    if set(visible) == {""} and len(offsets) == 1:
        offsets = dict.fromkeys(visible, next(iter(offsets.values())))
    return tuple(
        OffsetMismatch(name, visible.get(name), offsets.get(name))
        for name in sorted(visible.keys() | offsets.keys())
        if str(visible.get(name)) != offsets.get(name)
    )


def _only_value(fields: Mapping[str, Any] | None) -> str:
    if fields is None:
        return "null"
    return str(next(iter(fields.values()))) if len(fields) == 1 else str(dict(fields))
