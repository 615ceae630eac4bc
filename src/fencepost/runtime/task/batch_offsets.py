"""The source offsets of a batch that must be committed: the last one of each source partition, not one per record."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.api.record import SourceBatch, SourceOffset, SourcePartition, SourceRecord
from fencepost.runtime.task.boundaries import Batch


def batch_offsets(batch: Batch) -> Iterable[tuple[SourcePartition | None, SourceOffset | None]]:
    """Return the source offsets of a batch to commit, in order. For equal source partitions, the last offset counts."""
    return batch.offsets if isinstance(batch, SourceBatch) else _last_offsets(batch)


def _last_offsets(records: Iterable[SourceRecord]) -> list[tuple[SourcePartition, SourceOffset]]:
    """Return the last offset for each source partition object, the most recent one at the end.

    Sources usually use one object for all records of a partition, or equal objects in a row. Therefore only few objects
    have to be compared by content.
    """
    latest: dict[int, SourceRecord] = {}
    previous: SourcePartition | None = None
    identity = 0
    for record in records:
        partition = record.source_partition
        if partition is not previous and (previous is None or not _is_same(partition, previous)):
            identity = id(partition)
            latest.pop(identity, None)
        previous = partition
        latest[identity] = record
    return [(record.source_partition, record.source_offset) for record in latest.values()]


def _is_same(partition: SourcePartition, other: SourcePartition) -> bool:
    """Whether two source partitions are the same. In Python, 1, 1.0 and True are equal; in JSON they are not."""
    try:
        return (
            partition == other
            and [*partition] == [*other]
            and [*map(type, partition.values())] == [*map(type, other.values())]
        )
    except Exception:  # noqa: BLE001 - values of the connector that cannot be compared are refused where they are stored
        return False
