"""Determines the topic partition of each record, and the writer of each topic partition. Collects records' metadata.

In one job only one writer writes to a topic partition, so that its sequence numbers are contiguous. Of n writers,
number i owns the partitions p of each topic with p % n == i. After a shuffle, `writer_of` decides instead.

If a record defines its partition, it goes there. Else, if it has a key, it goes to the partition that Kafka's default
partitioner chooses (https://kafka.apache.org/documentation/#producerconfigs_partitioner.class). Else it goes to any
partition that the writer owns: runs of such records, as long as a record batch, go to one partition after the other.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.errors import DataError
from fencepost.api.record import RecordMetadata
from fencepost.engine.conversion import Converted
from fencepost.kafka.errors import TransactionAbortableError
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.kafka.producer.partitioner import partition_for_keys
from fencepost.kafka.producer.transaction import TopicPartition
from fencepost.kafka.records.columns import Records

ANY: Final = -1
"""A partition number for records that do not define their partition."""

_DROPPED: Final = -1


class MissingPartitionError(DataError):
    """A record is for a partition that its topic does not have.

    `row` is the record's position among the routed rows.
    """

    row: int = 0


class Routed(NamedTuple):
    """Records for one topic partition. `rows` are their positions among the routed rows, None if these are all rows."""

    topic: str
    partition: int
    records: Records
    rows: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Ownership:
    """The writer with number `index` among `writers` writers."""

    index: int = 0
    writers: int = 1

    def partitions(self, count: int) -> range:
        """The partitions that this writer owns, for a topic with `count` partitions."""
        return range(self.index, count, self.writers)


def writer_count(*, parallelism: int, partitions: int, splits: int | None = None) -> int:
    """The number of writers of a job: the smallest of parallelism, partitions and splits, but at least one."""
    return max(1, min(parallelism, partitions, parallelism if splits is None else splits))


def contiguous_run(count: int, run: int, runs: int) -> range:
    """The splits of run number `run`, if `count` splits are divided into `runs` runs of neighbouring splits."""
    return range(count * run // runs, count * (run + 1) // runs)


def writer_of(topic: str, partitions: np.ndarray, writers: int) -> np.ndarray:
    """Return the writer of each partition after a shuffle. A topic's hash selects the writer of its partition 0."""
    return ((zlib.crc32(topic.encode()) + partitions.astype(np.int64)) % writers).astype(np.int32)


class PartitionCounts:
    """The numbers of partitions of topics. They are the same for all parts of a batch.

    Each process learns about a topic's growth at another time, and a key's partition depends on the number of
    partitions. So the worker passes on the numbers that it knows. `ask` requests other numbers; these are kept in
    `requested_counts`, so that the worker can compare them. The same applies if a record names a partition that its
    topic seems not to have: `ask_again` requests the topic's present number of partitions.
    """

    def __init__(
        self, known: Mapping[str, int], ask: Callable[[str], int], ask_again: Callable[[str, int], int]
    ) -> None:
        self.requested_counts: dict[str, int] = {}
        self._known = known
        self._ask = ask
        self._ask_again = ask_again

    def __call__(self, topic: str) -> int:
        """Return the number of partitions of a topic. Raises the errors of `ask`."""
        count = self.requested_counts.get(topic, self._known.get(topic))
        if count is None:
            count = self.requested_counts[topic] = self._ask(topic)
        return count

    def beyond(self, topic: str, partition: int) -> int:
        """Return the present number of partitions if a topic seems not to have `partition`.

        Raises the errors of `ask_again`.
        """
        count = self.requested_counts[topic] = self._ask_again(topic, partition)
        return count


def agreed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Merge the numbers of partitions that parts of a batch used. Raises TransactionAbortableError if these differ."""
    found: dict[str, int] = {}
    for part in counts:
        for topic, count in part.items():
            if found.setdefault(topic, count) != count:
                raise TransactionAbortableError(
                    f"Topic {topic} got more partitions while a batch was written: some of its records were placed among "
                    f"{found[topic]} partitions, others among {count}. They are sent again in a new transaction"
                )
    return found


class Router:
    """Routes the records of one batch.

    Keeps the current run: consecutive records without key and partition, which go to one partition.

    `partition_count` returns a topic's number of partitions. `beyond` returns it again if a record names a higher
    partition, because the topic may have grown. `run_bytes` is the size of a run. `start` shifts the partition of the
    first run, so that small batches do not all go to the same partition. If a topic grows between two records with
    keys, `route` and `targets` raise TransactionAbortableError, as `agreed` does.
    """

    def __init__(
        self,
        partition_count: Callable[[str], int],
        beyond: Callable[[str, int], int],
        ownership: Ownership,
        *,
        run_bytes: int,
        start: int = 0,
    ) -> None:
        self._partition_count = partition_count
        self._beyond = beyond
        self._ownership = ownership
        self._run_bytes = run_bytes
        self._start = start
        self._runs: dict[str, tuple[int, int]] = {}
        self._keyed_among: dict[str, int] = {}

    def route(self, converted: Converted) -> Iterator[Routed]:
        """Split records by topic partition. The order within a partition is kept.

        Raises MissingPartitionError for a partition that the topic does not have, and TransactionAbortableError if the
        topic no longer has any partition that the writer owns.
        """
        topic, records = converted.topic, converted.records
        count = self._count(converted)
        chosen = resolve(converted, count)
        if chosen is None:
            yield Routed(topic, self._run(topic, count, records), records, None)
        else:
            yield from split(topic, records, self._filled(converted, chosen, count))

    def targets(self, converted: Converted) -> np.ndarray:
        """The partition of each record, as int32. Raises MissingPartitionError as `route` does."""
        count = self._count(converted)
        chosen = resolve(converted, count)
        if chosen is None:
            chosen = np.full(len(converted.records), ANY, dtype=np.int32)
        return self._filled(converted, chosen, count)

    def _count(self, converted: Converted) -> int:
        count = self._partition_count(converted.topic)
        highest = -1 if converted.partition is None else pc.max(converted.partition).as_py()
        if highest is not None and highest >= count:
            count = self._beyond(converted.topic, highest)
        keys = converted.records.key
        if keys is not None and keys.null_count < len(keys):
            agreed([{converted.topic: self._keyed_among.setdefault(converted.topic, count)}, {converted.topic: count}])
        return count

    def _filled(self, converted: Converted, chosen: np.ndarray, count: int) -> np.ndarray:
        if not (chosen == ANY).any():
            return chosen
        run = self._run(converted.topic, count, converted.records)
        return np.where(chosen == ANY, run, chosen).astype(np.int32)

    def _run(self, topic: str, count: int, records: Records) -> int:
        owned = self._ownership.partitions(count)
        if not owned:
            # The topic had more partitions when the job was planned. The broker that answered now has older metadata.
            raise TransactionAbortableError(
                f"Topic {topic} has {count} partitions, fewer than when its {self._ownership.writers} writers were "
                "planned: the records are sent again in a new transaction"
            )
        position, size = self._runs.get(topic, (self._start, 0))
        size += records.value.nbytes
        self._runs[topic] = (position, size) if size < self._run_bytes else (position + 1, 0)
        return owned[position % len(owned)]


def resolve(converted: Converted, count: int) -> np.ndarray | None:
    """The partition of each record, ANY for a record that does not define it; None if no record defines it."""
    keys, explicit = converted.records.key, converted.partition
    has_keys = keys is not None and keys.null_count < len(keys)
    has_partitions = explicit is not None and explicit.null_count < len(explicit)
    if not has_keys and not has_partitions:
        return None
    targets = np.full(len(converted.records), ANY, dtype=np.int32)
    if has_keys and count == 1:
        targets[:] = 0
    elif has_keys and keys is not None:
        targets = np.where(_valid(keys), partition_for_keys(keys, count), ANY).astype(np.int32)
    if has_partitions and explicit is not None:
        _check_partitions(converted.topic, explicit, count)
        chosen = pc.fill_null(explicit, ANY).to_numpy(zero_copy_only=False)
        targets = np.where(chosen == ANY, targets, chosen).astype(np.int32)
    return targets


def _valid(array: pa.Array) -> np.ndarray:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=bool)


def _check_partitions(topic: str, explicit: pa.Array, count: int) -> None:
    found = pc.fill_null(explicit, 0).to_numpy(zero_copy_only=False)
    beyond = np.flatnonzero((found < 0) | (found >= count))
    if len(beyond):
        row = int(beyond[0])
        missing = MissingPartitionError(
            f"A record is for partition {found[row]} of topic {topic}, which has the partitions 0 to {count - 1}: "
            "correct the record's partition, or add partitions to the topic."
        )
        missing.row = row
        raise missing


def split(topic: str, records: Records, targets: np.ndarray) -> Iterator[Routed]:
    """Split records by their target partition, and keep their order within each partition."""
    first = int(targets[0])
    if (targets == first).all():
        yield Routed(topic, first, records, None)
        return
    order = np.argsort(targets, kind="stable")
    partitions, starts = np.unique(targets[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    for partition, start, end in zip(partitions.tolist(), starts.tolist(), ends.tolist(), strict=True):
        rows = order[start:end]
        yield Routed(topic, partition, records.take(pa.array(rows)), rows)


class PolledMetadata(Sequence[RecordMetadata | None]):
    """The metadata of each record of a polled batch; None for a dropped record. The metadata is stored as columns."""

    def __init__(self, count: int) -> None:
        """`count` is the number of records, including dropped ones."""
        self._sent: defaultdict[TopicPartition, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
        self._targets: list[TopicPartition] = []
        self._target = np.full(count, _DROPPED, dtype=np.int32)
        self._offset = np.full(count, -1, dtype=np.int64)
        self._timestamp = np.full(count, -1, dtype=np.int64)

    def sent(self, part: Converted, routed: Routed) -> None:
        """Note the rows that were passed to the writer for one topic partition."""
        rows = part.last_positions if routed.rows is None else part.last_positions[routed.rows]
        self._sent[routed.topic, routed.partition].append((rows, _times(routed.records)))

    def acknowledged(self, acks: Sequence[Ack]) -> None:
        """Set the metadata of all sent records, from the acknowledgements."""
        by_target: defaultdict[TopicPartition, list[Ack]] = defaultdict(list)
        for ack in acks:
            by_target[ack.topic, ack.partition].append(ack)
        for target, parts in self._sent.items():
            rows, times = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            self._place(target, rows, by_target[target], times)
        self._sent.clear()

    def _place(self, target: TopicPartition, rows: np.ndarray, acks: Sequence[Ack], times: np.ndarray) -> None:
        """Set the metadata of `rows`, which were written in this order to one partition.

        `times` is -1 for an unset timestamp.

        The number -1 in `rows` stands for a row that is not the last row of its record. Such a row is skipped.
        """
        counts = np.array([ack.count for ack in acks])
        bases = np.repeat(np.array([ack.base_offset for ack in acks]), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        sent = np.repeat(np.array([ack.timestamp for ack in acks]), counts)
        last = rows >= 0
        self._target[rows[last]] = len(self._targets)
        self._offset[rows[last]] = np.where(bases < 0, -1, bases + within)[last]
        self._timestamp[rows[last]] = np.where(times < 0, sent, times)[last]
        self._targets.append(target)

    def columns(self) -> pa.RecordBatch:
        """Return the metadata as columns `topic`, `partition`, `offset` and `timestamp`, null for dropped records."""
        dropped = self._target == _DROPPED
        targets = pa.array(self._target, mask=dropped)
        topics, partitions = zip(*self._targets, strict=True) if self._targets else ((), ())
        return pa.RecordBatch.from_pydict(
            {
                "topic": pa.array(topics, pa.string()).take(targets),
                "partition": pa.array(partitions, pa.int32()).take(targets),
                "offset": pa.array(self._offset, mask=dropped),
                "timestamp": pa.array(self._timestamp, mask=dropped),
            }
        )

    def __len__(self) -> int:
        return len(self._target)

    @overload
    def __getitem__(self, index: int) -> RecordMetadata | None: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordMetadata | None]: ...
    def __getitem__(self, index: int | slice) -> RecordMetadata | Sequence[RecordMetadata | None] | None:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        if self._target[index] == _DROPPED:
            return None
        topic, partition = self._targets[self._target[index]]
        return RecordMetadata(topic, partition, int(self._offset[index]), int(self._timestamp[index]))


def _times(records: Records) -> np.ndarray:
    if records.timestamp is None:
        return np.full(len(records), -1, dtype=np.int64)
    return np.asarray(records.timestamp.fill_null(-1).to_numpy())
