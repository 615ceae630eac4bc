"""The source offsets that a task has to commit, and the records that they become."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fencepost.api.errors import DataError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.kafka.partitioner import partition_for_keys
from fencepost.kafka.records import Records
from fencepost.storage.offset_table import OffsetTable
from fencepost.storage.offsets import encode_value


class OffsetRecords:
    """The last offset of each source partition since the last commit, at a constant cost for each record.

    `table` is that of the store which the records go to: a source partition that it knows is written under the key
    that it has there. One task's thread uses it.
    """

    def __init__(
        self,
        connector: str,
        table: OffsetTable,
        on_commit: Callable[[list[tuple[SourcePartition, SourceOffset | None]]], None] = lambda _: None,
    ) -> None:
        """`on_commit` is told which offsets were committed; it must not wait or raise."""
        self._connector = connector
        self._table = table
        self._on_commit = on_commit
        self._written: list[tuple[SourcePartition, SourceOffset | None]] = []
        self._latest: dict[frozenset[Any], tuple[SourcePartition, SourceOffset | None]] = {}

    def __len__(self) -> int:
        return len(self._latest)

    def put(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        """Take note of how far a source partition was read; None removes its offset.

        Raises DataError for a partition that cannot be stored; offsets are looked at when they are encoded.
        """
        try:
            # Python holds 1, 1.0 and True for equal, JSON does not.
            key = frozenset([(name, value.__class__, value) for name, value in partition.items()])
        except (AttributeError, TypeError) as error:
            # Raises the DataError that names what is wrong.
            self._table.key(self._connector, partition)
            raise DataError(f"Connector {self._connector}: {partition!r} is not a source partition") from error
        # Copied: a task may go on to change the mapping that it gave.
        self._latest[key] = (dict(partition), None if offset is None else dict(offset))

    def update(self, offsets: Iterable[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Take note of several, in order."""
        for partition, offset in offsets:
            self.put(partition, offset)

    def latest(self) -> list[tuple[SourcePartition, SourceOffset | None]]:
        """Return the last offset of each source partition, None for one that is to be removed."""
        return list(self._latest.values())

    def by_partition(self, partitions: int) -> list[tuple[int, Records]]:
        """Return the records for each partition of an offsets topic that has so many.

        Raises DataError, naming the connector, for a partition or offset that cannot be stored.
        """
        every = Records.of_rows(
            [
                (self._table.key(self._connector, partition), encode_value(self._connector, offset))
                for partition, offset in self._latest.values()
            ]
        )
        targets = partition_for_keys(every.key, partitions)
        return [(int(target), every.take(np.flatnonzero(targets == target))) for target in np.unique(targets)]

    def written(self) -> None:
        """Take note that the offsets are written, and will be committed with what they are written in."""
        self._written = self.latest()
        self._latest.clear()

    def committed(self) -> None:
        """Take note that what is written is committed."""
        written, self._written = self._written, []
        self._on_commit(written)

    def clear(self) -> None:
        """Forget the offsets: they will not be committed."""
        self._written = []
        self._latest.clear()
