"""A task's uncommitted source offsets, and their records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from fencepost.api.errors import DataError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.kafka.producer.partitioner import records_by_partition
from fencepost.kafka.records.columns import Records
from fencepost.storage.offsets.codec import CommitAuthor, OffsetMark, Origin, encode_key, encode_value
from fencepost.storage.offsets.overlay import CommittedOffset
from fencepost.storage.offsets.table import OffsetTable


class OffsetRecords:
    """The last offset of each source partition since the last commit, at a constant cost for each record.

    `table` is the table of the records' store: known source partitions are written to their existing place. Only one
    task's thread uses it.
    """

    def __init__(
        self,
        connector: str,
        table: OffsetTable,
        *,
        on_commit: Callable[[list[CommittedOffset]], None] = lambda _: None,
        known_time: Callable[[SourcePartition | None], int] | None = None,
        author: Callable[[], CommitAuthor | None] = lambda: None,
        former: Callable[[], frozenset[Origin]] = frozenset,
    ) -> None:
        """`on_commit` is called with the committed offsets; it must not wait or raise.

        `known_time` returns the commit time of a source partition's newest offset, as read from all relevant topics; 0
        if there is none. Without it, `table` is used. `author` returns the committing run of the task, None if it must
        not be compared with other tasks. `former` returns the earlier topics that the commits must name.
        """
        self._connector = connector
        self._table = table
        self._on_commit = on_commit
        self._known_time = known_time or self._time_in_table
        self._author = author
        self._former = former
        self._time = 0
        self._written: list[CommittedOffset] = []
        self._latest: dict[frozenset[Any] | None, tuple[SourcePartition | None, SourceOffset | None]] = {}

    def __len__(self) -> int:
        return len(self._latest)

    def put(self, partition: SourcePartition | None, offset: SourceOffset | None) -> None:
        """Set a source partition's position; None removes its offset.

        Raises DataError for a partition that cannot be stored; offsets are checked when they are encoded.
        """
        if partition is None:
            self._latest[None] = (None, None if offset is None else dict(offset))
            return
        try:
            # In Python 1, 1.0 and True are equal, in JSON they are not.
            key = frozenset([(name, value.__class__, value) for name, value in partition.items()])
        except (AttributeError, TypeError) as error:
            # Raises DataError with the invalid part.
            encode_key(self._connector, partition)
            raise DataError(f"Connector {self._connector}: {partition!r} is not a source partition") from error
        # Copied: a task may change the mapping later.
        self._latest[key] = (dict(partition), None if offset is None else dict(offset))

    def update(self, offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]]) -> None:
        """Set several positions, in order."""
        for partition, offset in offsets:
            self.put(partition, offset)

    def latest(self) -> list[tuple[SourcePartition | None, SourceOffset | None]]:
        """Return the last offset of each source partition, None to remove one."""
        return list(self._latest.values())

    def by_partition(self, partitions: int) -> list[tuple[int, Records]]:
        """Return the records for each partition of an offsets topic, with a new commit time.

        Raises DataError, naming the connector, for a partition or offset that cannot be stored.
        """
        latest = self.latest()
        known = max((self._known_time(partition) for partition, _ in latest), default=0)
        self._time = max(int(time.time() * 1000), known + 1, self._time + 1)
        former = self._former()
        signed = OffsetMark(self._time, author=self._author(), former=former).headers()
        unsigned = OffsetMark(self._time, former=former).headers()
        records = [
            # Tasks may share empty values: no source partition, or no position in it.
            record._replace(headers=signed if partition and offset else unsigned)
            for partition, offset in latest
            for record in self._table.records(self._connector, partition, encode_value(self._connector, offset))
        ]
        return list(records_by_partition(records, partitions).items())

    def written(self) -> None:
        """Record that the offsets are written, and will be committed with their transaction."""
        self._written = [CommittedOffset(partition, offset, self._time) for partition, offset in self.latest()]
        self._latest.clear()

    def committed(self) -> None:
        """Record that the written offsets are committed."""
        written, self._written = self._written, []
        self._on_commit(written)

    def clear(self) -> None:
        """Drop the offsets: they will not be committed."""
        self._written = []
        self._latest.clear()

    def _time_in_table(self, partition: SourcePartition | None) -> int:
        stored = self._table.stored(self._connector, partition)
        return 0 if stored is None else stored.mark.time
