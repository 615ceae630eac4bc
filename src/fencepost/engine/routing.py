"""Determines the topic partition of each record, and the writer of each topic partition; keeps where records went.

In one job only one writer writes a topic partition, so that its sequence numbers are contiguous. Of n writers, number i
owns the partitions p of each topic with p % n == i.

A record with a partition goes there; else one with a key goes to the partition of Kafka's default partitioner
(https://kafka.apache.org/documentation/#producerconfigs_partitioner.class); else it goes to any partition that the
writer owns: runs of records as long as a record batch, one partition after the other.
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
"""Means that the record does not define its partition."""

_DROPPED: Final = -1


class MissingPartitionError(DataError):
    """A record is for a partition that its topic does not have. `row` is its position among the routed rows."""

    row: int = 0


class Routed(NamedTuple):
    """Records of one topic partition. `rows` are their positions among the routed rows, None for all."""

    topic: str
    partition: int
    records: Records
    rows: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Ownership:
    """Writer `index` of `writers`."""

    index: int = 0
    writers: int = 1

    def partitions(self, count: int) -> range:
        """The partitions of this writer, for a topic with `count` partitions."""
        return range(self.index, count, self.writers)


def writer_count(*, parallelism: int, partitions: int, splits: int | None = None) -> int:
    """The number of writers of a job: at most as many as can run at once and as have work; at least one."""
    return max(1, min(parallelism, partitions, parallelism if splits is None else splits))


def contiguous_run(count: int, run: int, runs: int) -> range:
    """One of `runs` parts of `count` splits: the parts in order are all splits in order."""
    return range(count * run // runs, count * (run + 1) // runs)


def writer_of(topic: str, partitions: np.ndarray, writers: int) -> np.ndarray:
    """The writer of each partition if a job writes several topics: their first partitions are spread."""
    return ((zlib.crc32(topic.encode()) + partitions.astype(np.int64)) % writers).astype(np.int32)


class PartitionCounts:
    """The numbers of partitions of topics, the same for all parts of a batch.

    Each process learns of a topic's growth at its own time, and a key's partition depends on the number. So the worker
    passes on the numbers that it knows; `ask` requests others, and keeps them in `asked` for the worker to compare. The
    same applies to a topic that has fewer partitions than a record names: `ask_again` requests its present number.
    """

    def __init__(
        self, known: Mapping[str, int], ask: Callable[[str], int], ask_again: Callable[[str, int], int]
    ) -> None:
        self.asked: dict[str, int] = {}
        self._known = known
        self._ask = ask
        self._ask_again = ask_again

    def __call__(self, topic: str) -> int:
        """Return the number of a topic's partitions. Raises the errors of `ask`."""
        count = self.asked.get(topic, self._known.get(topic))
        if count is None:
            count = self.asked[topic] = self._ask(topic)
        return count

    def beyond(self, topic: str, partition: int) -> int:
        """Return the number for a partition that the topic seems not to have. Raises the errors of `ask_again`."""
        count = self.asked[topic] = self._ask_again(topic, partition)
        return count


def agreed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Merge the numbers of partitions that parts of a batch used. Raises TransactionAbortableError if they differ."""
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
    """Routes the records of one batch. Tracks the current run of records without key and partition.

    `partition_count` returns the number of a topic's partitions, and `beyond` the same if a record names a higher one:
    the topic may have grown. `run_bytes` is the size of a run; `start` shifts the partition of the first run, so that
    small batches do not all go to the same one. A topic may grow meanwhile, but not between records with keys: `route`
    and `targets` raise TransactionAbortableError then, as `agreed` does.
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
        """Split records by topic partition; the order within a partition is kept.

        Raises MissingPartitionError for a partition that the topic does not have, TransactionAbortableError where the topic lost
        all partitions that the writer owns.
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
            # Another broker knows less of the topic than the one that the job was planned with.
            raise TransactionAbortableError(
                f"Topic {topic} has {count} partitions, fewer than when its {self._ownership.writers} writers were "
                "planned: the records are sent again in a new transaction"
            )
        position, size = self._runs.get(topic, (self._start, 0))
        size += records.value.nbytes
        self._runs[topic] = (position, size) if size < self._run_bytes else (position + 1, 0)
        return owned[position % len(owned)]


def resolve(converted: Converted, count: int) -> np.ndarray | None:
    """The partition of each record, ANY if the record does not define it; None if no record does."""
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
    """Split records by their target partition, keeping their order within each."""
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
    """The metadata of each record of a polled batch; None for one that a transform dropped. Kept as columns."""

    def __init__(self, count: int) -> None:
        """`count` includes dropped records."""
        self._sent: defaultdict[TopicPartition, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
        self._targets: list[TopicPartition] = []
        self._target = np.full(count, _DROPPED, dtype=np.int32)
        self._offset = np.full(count, -1, dtype=np.int64)
        self._timestamp = np.full(count, -1, dtype=np.int64)

    def sent(self, part: Converted, routed: Routed) -> None:
        """Record that rows of a part of the batch were given to the writer."""
        rows = part.last_positions if routed.rows is None else part.last_positions[routed.rows]
        self._sent[routed.topic, routed.partition].append((rows, _times(routed.records)))

    def acknowledged(self, acks: Sequence[Ack]) -> None:
        """Record that all records that were sent are written, as in `acks`."""
        by_target: defaultdict[TopicPartition, list[Ack]] = defaultdict(list)
        for ack in acks:
            by_target[ack.topic, ack.partition].append(ack)
        for target, parts in self._sent.items():
            rows, times = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            self._place(target, rows, by_target[target], times)
        self._sent.clear()

    def _place(self, target: TopicPartition, rows: np.ndarray, acks: Sequence[Ack], times: np.ndarray) -> None:
        """Set the metadata of `rows`, which were written in order to one partition; `times` is -1 if unset.

        A row of -1 is not the last one of its record, and passed over.
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
        """Return the metadata as the columns `topic`, `partition`, `offset` and `timestamp`, null for what was dropped."""
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
