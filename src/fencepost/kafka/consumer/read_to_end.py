"""Reads a topic to its end without missing records of an open transaction (row D3 of KIP-618's offset reads).

The end offsets are listed with read_uncommitted, so they are after the records of open transactions. Then the topic is
read up to there with read_committed: the broker returns nothing after an open transaction, so the reader waits until
each transaction that had begun has ended. Everything committed before the call of `read_to_end` is always seen.

Partitions are looked up again whenever ends are listed: a topic may have got more. A topic that was deleted and created
again has another id, and is read from its beginning.

partition_requests.py has the requests to the leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack
from uuid import UUID

from fencepost.api.closing import Closing
from fencepost.api.errors import FencepostError, RetriableError
from fencepost.kafka.admin.open_transactions import find_open_transactions
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.fetch_decoder import (
    ConsumedRecord,
    DecodingBudget,
    FetchedRecords,
    SkippedBatch,
    read_fetched,
)
from fencepost.kafka.consumer.partition_requests import EARLIEST, LATEST, READ_COMMITTED, PartitionRequests
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import BrokerUnavailableError, KafkaError
from fencepost.kafka.transport.broker_client import TRANSIENT, BrokerClient, remaining_ms
from fencepost.kafka.transport.error_codes import Code
from fencepost.kafka.transport.topic_leaders import topic_row
from fencepost.kafka.transport.unreachable_warning import silent_seconds

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

# A transaction whose producer died is aborted by its coordinator after transaction.timeout.ms (60 s unless set), which
# the coordinator looks at every 10 s; the rest is for reading.
DEFAULT_TIMEOUT_MS: Final = 90_000

# Longest wait for a transaction in one request; a commit ends it at once. Bounds how long `close` waits.
_LONG_POLL_MS: Final = 500
# How long `poll` may miss new partitions.
_FOLLOWED_MAX_AGE_MS: Final = 5_000


class TopicReadTimeoutError(KafkaError, RetriableError):
    """A topic could not be read to its end in time, usually because of a transaction that stays open until it expires.

    `partition` is the first one that is behind.
    """

    def __init__(self, topic: str, partition: int, message: str) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition


class TopicReader(Closing):
    """Reads all partitions of a topic, or `only` one, from the beginning, and keeps its position between calls.

    One thread at a time may read; `close` may be called from any thread.
    """

    def __init__(
        self, config: ClientConfig, topic: str, *, only: int | None = None, most_bytes: int | None = None
    ) -> None:
        """With `most_bytes`, the records of one fetch take no more memory, and larger batches are skipped."""
        self.topic = topic
        self._most_bytes = most_bytes
        self._skipped: list[SkippedBatch] = []
        # Partitions whose data did not fit into the last fetch's memory: they come first in the next one.
        self._waiting: set[int] = set()
        self._isolation = READ_COMMITTED
        self._client = BrokerClient(config)
        self._positions: dict[int, int] = {}
        self._requests = PartitionRequests(self._client, topic, only=only)
        self._topic_id: UUID | None = None

    @property
    def positions(self) -> Mapping[int, int]:
        """The offset up to which each partition was read; transaction markers count."""
        return dict(self._positions)

    @property
    def topic_id(self) -> UUID | None:
        """The id of the topic that `positions` belong to; None before the first read, and from brokers before 2.8."""
        return self._topic_id

    def take_skipped(self) -> list[SkippedBatch]:
        """Return the batches skipped since the last call; one that was read again comes again."""
        skipped, self._skipped = self._skipped, []
        return skipped

    def look_afresh(self) -> None:
        """Look the partitions up again at the next read. Thread-safe."""
        self._requests.forget_leaders()

    def read_to_end(
        self, timeout_ms: float = DEFAULT_TIMEOUT_MS, *, deadline: Deadline | None = None
    ) -> Iterator[ConsumedRecord]:
        """Yield the committed records between the last call's end and the current one, in order per partition.

        `deadline` is the deadline of a caller who has already used some of the time. Leaving the iteration early keeps
        the position before the current batch. Raises TopicReadTimeoutError, TopicNotFoundError, AuthorizationError or
        BrokerUnavailableError.
        """
        deadline = deadline or Deadline.after(timeout_ms)
        ends, topic_id = self._run(self._end_offsets, deadline), self._topic_id
        patient = False
        while behind := [partition for partition, end in ends.items() if self._positions.get(partition, 0) < end]:
            fetched = self._run(self._fetch_all, behind, ends, deadline, patient)
            for partition, (part, next_offset) in fetched.items():
                yield from part.records
                self._positions[partition] = next_offset
            patient = not fetched
            if patient and deadline.passed:
                raise self.late(behind[0], self._positions.get(behind[0], 0), ends[behind[0]], timeout_ms)
            if topic_id != self._topic_id:
                ends, topic_id = self._run(self._end_offsets, deadline), self._topic_id

    def poll(self) -> list[ConsumedRecord]:
        """Return the next committed records, in order per partition; wait at most half a second for some.

        Call it after `read_to_end`. Raises as that does, except TopicReadTimeoutError.
        """
        deadline = Deadline.after(_LONG_POLL_MS)
        fetched = self._run(self._fetch_all, None, {}, deadline, True)
        for partition, (_, next_offset) in fetched.items():
            self._positions[partition] = next_offset
        return [record for part, _ in fetched.values() for record in part.records]

    def end_offsets(self, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> dict[int, int]:
        """Return the end offset of each partition, after records of open transactions. Raises as `read_to_end` does."""
        ends: dict[int, int] = self._run(self._end_offsets, Deadline.after(timeout_ms))
        return ends

    def committed_offsets(self, timestamp: int, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> dict[int, int]:
        """Return an offset of each partition, as read_committed consumers see the topic.

        For a timestamp in milliseconds it is the first offset at or after it, -1 if there is none; for LATEST the last
        stable offset, which open transactions hold back. Raises as `read_to_end` does.
        """
        offsets: dict[int, int] = self._run(self._committed_offsets, timestamp, Deadline.after(timeout_ms))
        return offsets

    def seek(self, positions: Mapping[int, int]) -> None:
        """Continue at these offsets, by partition; others continue where they are.

        Call it after a method that lists offsets, which finds out which topic has the name.
        """
        self._positions |= positions

    @property
    def silent_seconds(self) -> float:
        """For how long no broker of the cluster has answered any client of this process; 0 if the last request was.

        `poll` returns nothing during a short silence.
        """
        return silent_seconds(self._client.config.bootstrap_servers)

    def is_missing(self) -> bool:
        """Whether a broker answers that the topic does not exist; False while no broker answers."""
        try:
            row = self._run(topic_row, self._client, self.topic, _LONG_POLL_MS)
        except FencepostError:
            return False
        return bool(row.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION)

    def late(self, partition: int, position: int, end: int, timeout_ms: float) -> TopicReadTimeoutError:
        """Return the error with the reason why a reader at `position` did not reach `end` in time."""
        error: TopicReadTimeoutError = self._run(self._late, partition, position, end, timeout_ms)
        return error

    def close(self) -> None:
        """Close the connections; a read on another thread ends with an IllegalStateError."""
        self._client.close()

    def _run(self, procedure: Callable[[Unpack[Arguments]], T], *args: *Arguments) -> T:
        return self._client.run(procedure, *args, doing=f"reading topic {self.topic}")

    def _end_offsets(self, deadline: Deadline) -> dict[int, int]:
        """The read_uncommitted end of each partition; a partition that is new is positioned at its beginning."""
        while True:
            try:
                self._find_leaders(deadline, max_age_ms=0)
                ends = self._requests.list_offsets(self._requests.leaders, LATEST, deadline)
                unknown = [
                    partition
                    for partition, end in ends.items()
                    # A position past the end belongs to a deleted topic of that name.
                    if self._positions.get(partition, end + 1) > end
                ]
                if unknown:
                    self._positions |= self._requests.list_offsets(unknown, EARLIEST, deadline)
            except TRANSIENT as error:
                self._back_off(error, deadline)
            else:
                return ends

    def _committed_offsets(self, timestamp: int, deadline: Deadline) -> dict[int, int]:
        while True:
            try:
                self._find_leaders(deadline, max_age_ms=0)
                return self._requests.list_offsets(
                    self._requests.leaders, timestamp, deadline, isolation=READ_COMMITTED
                )
            except TRANSIENT as error:
                self._back_off(error, deadline)

    def _find_leaders(self, deadline: Deadline, max_age_ms: float | None = None) -> None:
        self._requests.find_leaders(deadline, max_age_ms)
        if self._topic_id != self._requests.topic_id:
            self._positions.clear()
            self._topic_id = self._requests.topic_id
        for gone in self._positions.keys() - self._requests.leaders.keys():
            del self._positions[gone]

    def _fetch_all(
        self, behind: list[int] | None, ends: Mapping[int, int], deadline: Deadline, patient: bool
    ) -> dict[int, tuple[FetchedRecords, int]]:
        """The next records of the partitions (all if None), and each next offset; without partitions that had none.

        A partition that is not in `ends` is read as far as records are stable.
        """
        wait_ms = int(remaining_ms(deadline, _LONG_POLL_MS)) if patient else 0
        try:
            self._find_leaders(deadline, _FOLLOWED_MAX_AGE_MS if behind is None else None)
            if added := self._requests.leaders.keys() - self._positions.keys():
                self._positions |= self._requests.list_offsets(added, EARLIEST, deadline)
            positions = self._positions
            asked = positions if behind is None else {each: positions[each] for each in positions.keys() & behind}
            rows = self._requests.fetch(asked, self._isolation, wait_ms, deadline)
            return self._take(rows, ends, deadline)
        except TRANSIENT as error:
            self._back_off(error, deadline)
            return {}

    def _take(
        self, rows: list[Any], ends: Mapping[int, int], deadline: Deadline
    ) -> dict[int, tuple[FetchedRecords, int]]:
        taken = {}
        nothing_at_all = not any(row.records for row in rows)
        budget = None if self._most_bytes is None else DecodingBudget(self._most_bytes)
        rows, self._waiting = sorted(rows, key=lambda row: row.partition_index not in self._waiting), set()
        for row in rows:
            partition = row.partition_index
            if row.error_code == Code.OFFSET_OUT_OF_RANGE:
                self._positions |= self._requests.list_offsets([partition], EARLIEST, deadline)
                continue
            self._requests.check(row.error_code, "READ")
            position = self._positions[partition]
            fetched = read_fetched(
                self.topic,
                partition,
                row.records,
                row.aborted_transactions,
                from_offset=position,
                budget=budget,
            )
            self._skipped += fetched.skipped
            stable = row.last_stable_offset if self._isolation == READ_COMMITTED else row.high_watermark
            end = ends.get(partition, max(position, stable))
            next_offset = self._go_on_at(fetched, stable, end, nothing_at_all)
            if next_offset is not None:
                taken[partition] = (fetched, next_offset)
            elif row.records:
                self._waiting.add(partition)
        return taken

    @staticmethod
    def _go_on_at(fetched: FetchedRecords, stable: int, end: int, nothing_at_all: bool) -> int | None:
        if fetched.next_offset is not None:
            return fetched.next_offset
        # Compaction may leave nothing between a position and the end. An empty answer proves that, unless a transaction
        # is still open, or other partitions used up the answer's bytes.
        return end if nothing_at_all and stable >= end else None

    def _back_off(self, error: Exception, deadline: Deadline) -> None:
        """Pause and drop the cached leaders; raise when the deadline has passed."""
        if deadline.passed:
            raise BrokerUnavailableError(
                f"Topic {self.topic} cannot be read: {error}. Check the health of its partitions' leaders"
            ) from error
        self._requests.forget_leaders()
        self._client.refresh_brokers(remaining_ms(deadline, self._client.config.request_timeout_ms))
        self._client.sleep(remaining_ms(deadline, self._client.config.retry_backoff_ms))

    def _late(self, partition: int, position: int, end: int, timeout_ms: float) -> TopicReadTimeoutError:
        found = find_open_transactions(self._client, self.topic, partition, self._requests.leaders[partition], end)
        if found:
            cause = (
                f"{found} is still open. It ends by itself after its producer's transaction.timeout.ms; to end it at "
                "once, stop its producer and run `fencepost transactions abort` with that id, or if it has none, with "
                f"--topic {self.topic} --partition {partition} --start-offset and that offset"
            )
        else:
            cause = "the broker hands out nothing more. Check the health of the partition's leader and replicas"
        return TopicReadTimeoutError(
            self.topic,
            partition,
            f"Topic {self.topic} was not read to its end within {timeout_ms:.0f} ms: {self.topic}-{partition} stands "
            f"at offset {position} of {end}, and {cause}",
        )


def read_to_end(config: ClientConfig, topic: str, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> Iterator[ConsumedRecord]:
    """Yield the committed records of a topic once, in order per partition. Raises as TopicReader.read_to_end does."""
    with TopicReader(config, topic) as reader:
        yield from reader.read_to_end(timeout_ms)
