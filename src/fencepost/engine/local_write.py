"""Writes polled records in the worker itself, and tracks the metadata of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, overload

import numpy as np
import pyarrow as pa

from fencepost.api.record import RecordMetadata
from fencepost.engine.conversion import Converted
from fencepost.engine.routing import Router
from fencepost.kafka.producer.sender import Ack, RecordWriter
from fencepost.kafka.producer.transaction import TopicPartition
from fencepost.kafka.records.columns import Records

_SLICE: Final = 10_000
"""The number of records that are routed together: a large batch goes to several partitions, in runs."""

_DROPPED: Final = -1


class PolledMetadata(Sequence[RecordMetadata | None]):
    """The metadata of each record of a polled batch; None for one that a transform dropped. Kept as columns."""

    def __init__(self, count: int) -> None:
        self._targets: list[TopicPartition] = []
        self._target = np.full(count, _DROPPED, dtype=np.int32)
        self._offset = np.full(count, -1, dtype=np.int64)
        self._timestamp = np.full(count, -1, dtype=np.int64)

    def place(self, target: TopicPartition, rows: np.ndarray, acks: Sequence[Ack], times: np.ndarray) -> None:
        """Record that `rows` were written in order to one partition, as in `acks`; `times` is -1 if unset."""
        counts = np.array([ack.count for ack in acks])
        bases = np.repeat(np.array([ack.base_offset for ack in acks]), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        sent = np.repeat(np.array([ack.timestamp for ack in acks]), counts)
        self._target[rows] = len(self._targets)
        self._offset[rows] = np.where(bases < 0, -1, bases + within)
        self._timestamp[rows] = np.where(times < 0, sent, times)
        self._targets.append(target)

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


def in_record_order(groups: Iterable[Converted]) -> list[Converted]:
    """Join the groups of each topic, with their rows in the order in which they were polled."""
    by_topic: defaultdict[str, list[Converted]] = defaultdict(list)
    for group in groups:
        by_topic[group.topic].append(group)
    return [parts[0] if len(parts) == 1 else _joined(topic, parts) for topic, parts in by_topic.items()]


def _joined(topic: str, parts: Sequence[Converted]) -> Converted:
    rows = np.concatenate([_rows(part) for part in parts])
    order = pa.array(np.argsort(rows, kind="stable"))
    partitions = [
        pa.nulls(len(part.records), pa.int32()) if part.partition is None else part.partition for part in parts
    ]
    return Converted(
        topic,
        Records.concat([part.records for part in parts]).take(order),
        pa.concat_arrays(partitions).take(order),
        pa.array(np.sort(rows)),
    )


def _rows(converted: Converted) -> np.ndarray:
    if converted.rows is None:
        return np.arange(len(converted.records), dtype=np.int64)
    return np.asarray(converted.rows.to_numpy())


def write_polled(
    groups: Iterable[Converted], count: int, router: Router, writer: RecordWriter
) -> tuple[list[Ack], PolledMetadata]:
    """Write polled records, `count` including dropped ones. Raises what the router and the writer raise."""
    placed: defaultdict[TopicPartition, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
    for converted in in_record_order(groups):
        for part in _slices(converted):
            for routed in router.route(part):
                rows = _rows(part) if routed.rows is None else _rows(part)[routed.rows]
                placed[routed.topic, routed.partition].append((rows, _times(routed.records)))
                writer.write(routed.topic, routed.partition, routed.records)
    acks = writer.flush()
    metadata = PolledMetadata(count)
    for target, parts in placed.items():
        own = [ack for ack in acks if (ack.topic, ack.partition) == target]
        metadata.place(target, np.concatenate([rows for rows, _ in parts]), own, np.concatenate([t for _, t in parts]))
    return acks, metadata


def _slices(converted: Converted) -> Iterable[Converted]:
    for offset in range(0, len(converted.records), _SLICE):
        yield Converted(
            converted.topic,
            converted.records.slice(offset, _SLICE),
            None if converted.partition is None else converted.partition.slice(offset, _SLICE),
            None if converted.rows is None else converted.rows.slice(offset, _SLICE),
        )


def _times(records: Records) -> np.ndarray:
    if records.timestamp is None:
        return np.full(len(records), -1, dtype=np.int64)
    return np.asarray(records.timestamp.fill_null(-1).to_numpy())
