"""Reads the last committed record of a key. Open transactions of producers that do not write the key cause no wait.

This is meant for a key whose only writer has no open transaction. A read_committed consumer sees nothing after the
first open transaction of a partition, even if another producer owns that transaction. So this reader uses
read_committed up to that point, and read_uncommitted from there on. There, a record counts only once the marker of the
record's transaction is read. No such marker is missing, because brokers compact a log only up to the first open
transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord, FetchedRecords, TransactionMarker
from fencepost.kafka.consumer.partition_requests import READ_COMMITTED, READ_UNCOMMITTED
from fencepost.kafka.consumer.read_to_end import DEFAULT_TIMEOUT_MS, TopicReader
from fencepost.kafka.deadline import Deadline


class LastRecord:
    """The last committed record of a key, found in a log that is read in order. Pure: no I/O."""

    def __init__(self, key: bytes) -> None:
        self.committed: ConsumedRecord | None = None
        self._key: Final = key
        self._undecided: dict[int, ConsumedRecord] = {}

    @property
    def is_decided(self) -> bool:
        """Whether all transactions that have written the key have ended."""
        return not self._undecided

    def take(self, part: FetchedRecords, *, stable: bool) -> None:
        """Process the next part of the log.

        In a `stable` part, all transactions have ended, and the records of aborted ones are left out.
        """
        entries: list[ConsumedRecord | TransactionMarker] = [*part.records, *part.markers]
        for entry in sorted(entries, key=attrgetter("offset")):
            if isinstance(entry, TransactionMarker):
                record = self._undecided.pop(entry.producer_id, None)
                if record is not None and entry.committed:
                    self.committed = record
            elif entry.key == self._key:
                if stable or not entry.transactional:
                    self.committed = entry
                else:
                    self._undecided[entry.producer[0]] = entry


class LastRecordReader(TopicReader):
    """Reads one partition of a topic. Each call reads it from the beginning. Only one thread may use it."""

    def __init__(self, config: ClientConfig, topic: str, partition: int) -> None:
        super().__init__(config, topic, only=partition)
        self._partition = partition

    def read_last(self, key: bytes) -> ConsumedRecord | None:
        """Return the last committed record of a key; None if there is none.

        The call waits for an open transaction only if the transaction has written the key. Raises the errors of
        `read_to_end`.
        """
        deadline = Deadline.after(DEFAULT_TIMEOUT_MS)
        while True:
            self._positions.clear()
            self._isolation = READ_COMMITTED
            end = self._run(self._end_offsets, deadline).get(self._partition)
            if end is None:
                return None
            found = self._read_up_to(end, LastRecord(key), deadline)
            if found is not None:
                return found.committed

    def _read_up_to(self, end: int, found: LastRecord, deadline: Deadline) -> LastRecord | None:
        """Read until the record is known. Returns None if the topic was deleted and created again meanwhile."""
        topic_id, long_poll = self._topic_id, False
        while (position := self._positions[self._partition]) < end or not found.is_decided:
            isolation, until = self._isolation, max(end, position + 1)
            fetched = self._run(self._fetch_all, [self._partition], {self._partition: until}, deadline, long_poll)
            if topic_id != self._topic_id:
                return None
            for part, next_offset in fetched.values():
                found.take(part, stable=isolation == READ_COMMITTED)
                self._positions[self._partition] = next_offset
            long_poll = not fetched and isolation == self._isolation
            if long_poll and deadline.passed:
                raise self.late(self._partition, position, until, DEFAULT_TIMEOUT_MS)
        return found

    def _take(
        self, rows: list[Any], ends: Mapping[int, int], deadline: Deadline
    ) -> dict[int, tuple[FetchedRecords, int]]:
        position = self._positions[self._partition]
        taken = super()._take(rows, ends, deadline)
        # The answer has no error, and was not full. So everything before the first open transaction is read.
        if not taken and all(not row.error_code and row.last_stable_offset >= position for row in rows):
            self._isolation = READ_UNCOMMITTED
        return taken
