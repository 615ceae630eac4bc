"""A task's uncommitted source offsets, and the records for them."""

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
    """The last offset of each source partition since the last commit. The cost per record is constant.

    `table` is the OffsetTable of the topic to which the records are written. It knows the places of source partitions.
    Only the task's own thread may use this.
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
        """`on_commit` is called with the committed offsets. It must not wait or raise.

        `known_time` returns the commit time of a source partition's newest offset in all relevant topics; 0 if there is
        none. Without it, `table` is used. `author` returns the run of the task that commits; None if its commits must
        not be checked against other tasks' commits. `former` returns the earlier topics that the commits must name.
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
        """Set a source partition's offset; None removes it.

        Raises DataError for a partition that cannot be stored. Offsets are checked later, when they are encoded.
        """
        if partition is None:
            self._latest[None] = (None, None if offset is None else dict(offset))
            return
        try:
            # The class is part of the key, because 1, 1.0 and True are equal in Python, but not in JSON.
            key = frozenset([(name, value.__class__, value) for name, value in partition.items()])
        except (AttributeError, TypeError) as error:
            # This raises a DataError that names the invalid part.
            encode_key(self._connector, partition)
            raise DataError(f"Connector {self._connector}: {partition!r} is not a source partition") from error
        # The mappings are copied, because a task may change them later.
        self._latest[key] = (dict(partition), None if offset is None else dict(offset))

    def update(self, offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]]) -> None:
        """Set several offsets, in order."""
        for partition, offset in offsets:
            self.put(partition, offset)

    def latest(self) -> list[tuple[SourcePartition | None, SourceOffset | None]]:
        """Return the last offset of each source partition; None means that it is removed."""
        return list(self._latest.values())

    def by_partition(self, partitions: int) -> list[tuple[int, Records]]:
        """Return the records for each partition of an offsets topic, with a new commit time.

        Raises DataError that names the connector if a partition or offset cannot be stored.
        """
        latest = self.latest()
        known = max((self._known_time(partition) for partition, _ in latest), default=0)
        self._time = max(int(time.time() * 1000), known + 1, self._time + 1)
        former = self._former()
        signed = OffsetMark(self._time, author=self._author(), former=former).headers()
        unsigned = OffsetMark(self._time, former=former).headers()
        records = [
            # An empty source partition, and an empty or removed offset, get no author, because tasks may share them.
            record._replace(headers=signed if partition and offset else unsigned)
            for partition, offset in latest
            for record in self._table.records(self._connector, partition, encode_value(self._connector, offset))
        ]
        return list(records_by_partition(records, partitions).items())

    def written(self) -> None:
        """Record that the offsets are written. They are committed together with their transaction."""
        self._written = [CommittedOffset(partition, offset, self._time) for partition, offset in self.latest()]
        self._latest.clear()

    def committed(self) -> None:
        """Record that the written offsets are committed."""
        written, self._written = self._written, []
        self._on_commit(written)

    def clear(self) -> None:
        """Drop the offsets, because they will not be committed."""
        self._written = []
        self._latest.clear()

    def _time_in_table(self, partition: SourcePartition | None) -> int:
        stored = self._table.stored(self._connector, partition)
        return 0 if stored is None else stored.mark.time
