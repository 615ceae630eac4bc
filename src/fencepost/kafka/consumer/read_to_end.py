"""Reads a topic to its end without missing records of an open transaction (KIP-618).

The end offsets are listed with read_uncommitted, so they come after the records of open transactions. Then the topic is
read up to these offsets with read_committed. The broker returns nothing after an open transaction, so the reader waits
until each transaction that had begun has ended. So it sees every record that was committed before the call of
`read_to_end`. Partitions may be added to a topic, so the reader determines the partitions again whenever it lists end
offsets. A topic that was deleted and created again has another id, and is read from its beginning.

partition_requests.py contains the requests to the leaders.
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

# If a transaction's producer died, the coordinator aborts the transaction after transaction.timeout.ms (60 s unless
# set). The coordinator looks for expired transactions every 10 s. The remaining 20 s are for reading.
DEFAULT_TIMEOUT_MS: Final = 90_000

# The longest wait for a transaction in one request. A commit ends the wait at once. `close` also waits at most this
# long.
_LONG_POLL_MS: Final = 500
# How long new partitions may remain unnoticed by `poll`.
_FOLLOWED_MAX_AGE_MS: Final = 5_000


class TopicReadTimeoutError(KafkaError, RetriableError):
    """A topic could not be read to its end in time, usually because a transaction stays open until it expires.

    `partition` is the first partition that was not read to its end.
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
        """With `most_bytes`, the records of one fetch take at most that much memory, and larger batches are skipped."""
        self.topic = topic
        self._most_bytes = most_bytes
        self._skipped: list[SkippedBatch] = []
        # Partitions whose data exceeded the memory limit of the last fetch. The next fetch decodes them first.
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
        """The id of the topic to which `positions` belong.

        The value is None before the first read, and with brokers before Kafka 2.8.
        """
        return self._topic_id

    def take_skipped(self) -> list[SkippedBatch]:
        """Return the batches that were skipped since the last call. A batch that was read again is returned again."""
        skipped, self._skipped = self._skipped, []
        return skipped

    def request_metadata_update(self) -> None:
        """Determine the partitions again at the next read. Thread-safe."""
        self._requests.forget_leaders()

    def read_to_end(
        self, timeout_ms: float = DEFAULT_TIMEOUT_MS, *, deadline: Deadline | None = None
    ) -> Iterator[ConsumedRecord]:
        """Yield the committed records from the end of the last call to the current end, in order within each partition.

        A caller that has already used some of the time passes its own `deadline`. If the iteration is left early, the
        position stays before the current batch. Raises TopicReadTimeoutError, TopicNotFoundError, AuthorizationError or
        BrokerUnavailableError.
        """
        deadline = deadline or Deadline.after(timeout_ms)
        ends, topic_id = self._run(self._end_offsets, deadline), self._topic_id
        long_poll = False
        while behind := [partition for partition, end in ends.items() if self._positions.get(partition, 0) < end]:
            fetched = self._run(self._fetch_all, behind, ends, deadline, long_poll)
            for partition, (part, next_offset) in fetched.items():
                yield from part.records
                self._positions[partition] = next_offset
            long_poll = not fetched
            if long_poll and deadline.passed:
                raise self.late(behind[0], self._positions.get(behind[0], 0), ends[behind[0]], timeout_ms)
            if topic_id != self._topic_id:
                ends, topic_id = self._run(self._end_offsets, deadline), self._topic_id

    def poll(self) -> list[ConsumedRecord]:
        """Return the next committed records, in order within each partition. Waits for them half a second at most.

        Call `poll` after `read_to_end`. Raises the errors of `read_to_end`, except for TopicReadTimeoutError.
        """
        deadline = Deadline.after(_LONG_POLL_MS)
        fetched = self._run(self._fetch_all, None, {}, deadline, True)
        for partition, (_, next_offset) in fetched.items():
            self._positions[partition] = next_offset
        return [record for part, _ in fetched.values() for record in part.records]

    def end_offsets(self, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> dict[int, int]:
        """Return the end offset of each partition, after records of open transactions.

        Raises the errors of `read_to_end`.
        """
        ends: dict[int, int] = self._run(self._end_offsets, Deadline.after(timeout_ms))
        return ends

    def committed_offsets(self, timestamp: int, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> dict[int, int]:
        """Return an offset of each partition, as read_committed consumers see the topic.

        For a timestamp in milliseconds, the result is the first offset at or after this time; -1 if there is none. For
        LATEST, the result is the last stable offset, which does not move past open transactions. Raises the errors of
        `read_to_end`.
        """
        offsets: dict[int, int] = self._run(self._committed_offsets, timestamp, Deadline.after(timeout_ms))
        return offsets

    def seek(self, positions: Mapping[int, int]) -> None:
        """Continue at these offsets, by partition. Other partitions keep their positions.

        Call this after `end_offsets` or `committed_offsets`, which determine the topic's id: the reader forgets its
        positions when the id changes.
        """
        self._positions |= positions

    @property
    def silent_seconds(self) -> float:
        """For how long no broker of the cluster has answered this process; 0 if the last request was answered.

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
        """Return an error that says why a reader at `position` did not reach `end` in time."""
        error: TopicReadTimeoutError = self._run(self._late, partition, position, end, timeout_ms)
        return error

    def close(self) -> None:
        """Close the connections; a read on another thread ends with an IllegalStateError."""
        self._client.close()

    def _run(self, procedure: Callable[[Unpack[Arguments]], T], *args: *Arguments) -> T:
        return self._client.run(procedure, *args, doing=f"reading topic {self.topic}")

    def _end_offsets(self, deadline: Deadline) -> dict[int, int]:
        """Return the read_uncommitted end of each partition. A new partition gets its beginning as position."""
        while True:
            try:
                self._find_leaders(deadline, max_age_ms=0)
                ends = self._requests.list_offsets(self._requests.leaders, LATEST, deadline)
                unknown = [
                    partition
                    for partition, end in ends.items()
                    # A position after the end comes from a deleted topic with the same name.
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
        self, behind: list[int] | None, ends: Mapping[int, int], deadline: Deadline, long_poll: bool
    ) -> dict[int, tuple[FetchedRecords, int]]:
        """Return the next records of partitions (None: of all), each with the next offset to read.

        Partitions without new records are left out. A partition that is not in `ends` is read up to its last stable
        offset.
        """
        wait_ms = int(remaining_ms(deadline, _LONG_POLL_MS)) if long_poll else 0
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
        # Compaction may have removed all records between a position and the end. If the whole answer is empty and no
        # transaction is open before the end, the end is reached. A partition may also be empty because the records of
        # other partitions filled the answer.
        return end if nothing_at_all and stable >= end else None

    def _back_off(self, error: Exception, deadline: Deadline) -> None:
        """Pause, and forget the leaders. If the deadline has passed, raise the error."""
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
    """Yield the committed records of a topic once, in order within each partition.

    Raises the errors of TopicReader.read_to_end.
    """
    with TopicReader(config, topic) as reader:
        yield from reader.read_to_end(timeout_ms)
