"""Compares the records of a task with an earlier task's. Pure: no I/O.

Records are compared separately for each source partition and topic. The order between source partitions may differ from
run to run. Kafka keeps no order between topics, and the batches of different topics may have other sizes in each run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fencepost.api.record import SourceOffset, SourcePartition, SourceRecord
from fencepost.storage.offsets.codec import identity_of
from fencepost.testing.conformance.fields import named_fields, without

_SHOWN: Final = 120

Contents = tuple[str, str, str, int | None, str]
"""The topic, key, value, topic partition and headers of a record, as texts, so that NaN equals NaN."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A record that a task returned. `partition` identifies its source partition; None if that is unknown.

    If a SourceBatch has several source partitions, its rows belong to none. `fields` are the fields of the value, and
    the headers, by name. `left_out` are the names of the ignored fields and headers that the record has.
    """

    partition: str | None
    contents: Contents
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()

    @classmethod
    def of(cls, record: SourceRecord, ignored: Collection[str] = ()) -> Seen:
        """Copy the compared parts of a record, so that later changes of its objects have no effect.

        The contents exclude `ignored` fields of the value and headers.
        """
        partition = identity_of(record.source_partition) if record.source_partition else None
        value = without(record.value, ignored)
        headers = [(name, part) for name, part in record.headers if name not in ignored]
        contents = record.topic or "", repr(record.key), repr(value), record.partition, repr(headers)
        fields: dict[str, list[str]] = {}
        for name, text in (*named_fields(value), *((f"the header {name}", repr(part)) for name, part in headers)):
            fields.setdefault(name, []).append(text)
        names = {name for name, _ in (*named_fields(record.value), *record.headers)} if ignored else set[str]()
        return cls(partition, contents, fields, frozenset(names.intersection(ignored)))

    @property
    def topic(self) -> str:
        """The topic of the record."""
        return self.contents[0]

    def __str__(self) -> str:
        topic, key, value, _, _ = self.contents
        text = value if key == "None" else f"{key}: {value}"
        return f"{text if len(text) <= _SHOWN else text[:_SHOWN] + '...'} (topic {topic})"


@dataclass(frozen=True, slots=True)
class SeenPoll:
    """One poll that returned something. `offsets` is the position of each source partition after all of its records.

    `positions` has an offset for each record. It is empty for a SourceBatch, whose records have no offsets of their
    own.
    """

    records: Sequence[Seen]
    offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]]
    positions: Sequence[tuple[SourcePartition | None, SourceOffset | None]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The records of a task. `ended` means that the source had no more records."""

    steps: Sequence[SeenPoll]
    ended: bool

    @property
    def records(self) -> list[Seen]:
        """All records, in the order in which they were returned."""
        return records_of(self.steps)


def records_of(steps: Iterable[SeenPoll]) -> list[Seen]:
    """Return the records of some polls, in order, each with its source partition.

    If a batch has no offsets, it is committed together with a later batch, so it belongs to the later batch's source
    partition. If no other batch follows, it belongs to the source partition of the last batch before it.
    """
    found, uncommitted, partition = list[Seen](), list[Seen](), None
    for step in steps:
        if not step.offsets and not step.positions:
            uncommitted += step.records
            continue
        partitions = {identity_of(source_partition) for source_partition, _ in step.offsets}
        partition = partitions.pop() if len(partitions) == 1 else None
        found += [*(replace(record, partition=partition) for record in uncommitted), *step.records]
        uncommitted = []
    return found + [replace(record, partition=partition) for record in uncommitted]


def by_partition(records: Iterable[Seen]) -> dict[str | None, list[Seen]]:
    """Return the records of each source partition, in order."""
    found: dict[str | None, list[Seen]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record)
    return found


def difference(expected: Reading, start: int, actual: Sequence[Seen], *, ended: bool) -> str | None:
    """Return how `actual` differs from `expected`, beginning with record `start`; None if it does not differ.

    One of the two may end before the other, unless both have `ended`.
    """
    all_records = expected.records
    whole, left, found = (by_partition(part) for part in (all_records, all_records[start:], actual))
    renamed = found.keys().isdisjoint(whole)
    for partition, records in found.items():
        if partition not in whole:
            if expected.ended or (renamed and _overlap(records, all_records)):
                return (
                    f"the source partition {partition} was not there at first: a partition must have the same name in "
                    "each run, or its offset is not found"
                )
            continue
        wrong = _first_difference(whole[partition], left.get(partition, []), records, ended=expected.ended)
        if wrong is not None:
            return f"{wrong}, in the source partition {partition}"
    if ended and expected.ended:
        return _missing(left, found)
    if left and not found:
        return None if not ended else f"nothing follows, although {sum(map(len, left.values()))} records are left"
    return None


def _overlap(some: Iterable[Seen], others: Iterable[Seen]) -> bool:
    return not {record.contents for record in some}.isdisjoint(record.contents for record in others)


def _first_difference(whole: Sequence[Seen], left: Sequence[Seen], found: Sequence[Seen], *, ended: bool) -> str | None:
    for topic in dict.fromkeys(record.topic for record in found):
        parts = ([record for record in part if record.topic == topic] for part in (whole, left, found))
        if wrong := _first_difference_in_topic(*parts, ended=ended):
            return wrong
    return None


def _first_difference_in_topic(
    whole: Sequence[Seen], left: Sequence[Seen], found: Sequence[Seen], *, ended: bool
) -> str | None:
    for position, (record, wanted) in enumerate(zip(found, left, strict=False)):
        if record.contents != wanted.contents:
            return _described(whole, len(whole) - len(left) + position, record, wanted)
    if len(found) > len(left) and ended:
        return _described(whole, len(whole), found[len(left)], None)
    return None


def _described(whole: Sequence[Seen], index: int, record: Seen, wanted: Seen | None) -> str:
    """Describe the difference at a position among a source partition's records in a topic."""
    before = [number for number, one in enumerate(whole[:index]) if one.contents == record.contents]
    after = [number for number, one in enumerate(whole[index:]) if one.contents == record.contents]
    expected = "the end" if wanted is None else str(wanted)
    if before:
        return f"{index - before[-1]} record(s) are returned again, from {record} on, instead of {expected}"
    if after:
        return f"{after[0]} record(s) are skipped: {record} is returned instead of {expected}"
    return f"{record} is returned instead of {expected}{_differing_fields(record, wanted)}"


def _differing_fields(record: Seen, wanted: Seen | None) -> str:
    """Return the names of the innermost fields in which two records differ, if any."""
    if wanted is None:
        return ""
    names = dict.fromkeys((*wanted.fields, *record.fields))
    differing = [name for name in names if record.fields.get(name) != wanted.fields.get(name)]
    inner = [name for name in differing if not any(other.startswith(f"{name}.") for other in differing)]
    return f". They differ in {' and '.join(inner)}" if inner else ""


def _missing(left: Mapping[str | None, Sequence[Seen]], found: Mapping[str | None, Sequence[Seen]]) -> str | None:
    for partition, records in left.items():
        have = len(found.get(partition, ()))
        if have < len(records):
            return (
                f"{len(records) - have} record(s) of the source partition {partition} are never returned, the first of "
                f"them {records[have]}"
            )
    return None


def snapshot(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[SourcePartition | None, SourceOffset | None]]:
    """Copy source partitions and offsets. These are maps with simple values; None means that an offset is removed."""
    return [(dict(partition), None if offset is None else dict(offset)) for partition, offset in pairs]
