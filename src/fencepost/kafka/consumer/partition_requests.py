"""The requests of a reader to the leaders of a topic's partitions: offsets by ListOffsets, records by Fetch.

Source: https://kafka.apache.org/protocol (ListOffsets, Fetch).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError
from fencepost.kafka.transport.broker_client import BrokerClient, PassingError, remaining_ms
from fencepost.kafka.transport.error_codes import Code, is_retriable, refused
from fencepost.kafka.transport.topic_leaders import TopicLeaders

# Fetch version 13 needs topic ids, and brings nothing that is needed here.
_FETCH_VERSION: Final = 12
_FETCH_MAX_BYTES: Final = 16 * 1024 * 1024
_PARTITION_MAX_BYTES: Final = 4 * 1024 * 1024
# An answer may arrive this long after the deadline, because an error code explains more than a time-out.
_ANSWER_GRACE_MS: Final = 5_000

READ_UNCOMMITTED: Final = 0
"""The isolation level at which all records are read, also the records of open and aborted transactions."""

READ_COMMITTED: Final = 1
"""The isolation level at which a read ends at the first open transaction, and leaves out aborted transactions."""

EARLIEST: Final = -2
"""The timestamp that stands for the first offset of a partition."""

LATEST: Final = -1
"""The timestamp that stands for the end of a partition."""


class PartitionRequests:
    """Sends requests to the leaders of a topic's partitions, or only to the leader of the partition `only`.

    Methods may be called only within `BrokerClient.run`.

    The methods raise AuthorizationError, TopicNotFoundError, and the errors in TRANSIENT, after which a call may be
    repeated.
    """

    def __init__(self, client: BrokerClient, topic: str, *, only: int | None = None) -> None:
        self.leaders: Mapping[int, int] = {}
        """Maps each partition to its leader, as of the last call of `find_leaders`."""
        self._client = client
        self._topic = topic
        self._only = only
        self._topic_leaders = TopicLeaders(client, topic)

    @property
    def topic_id(self) -> UUID | None:
        """The id of the topic with these leaders; None before the first search, and from brokers before 2.8."""
        return self._topic_leaders.topic_id

    def find_leaders(self, deadline: Deadline, max_age_ms: float | None = None) -> None:
        """Find the leaders, unless known ones are at most `max_age_ms` old.

        If `max_age_ms` is None, the property `metadata.max.age.ms` is used.
        """
        leaders = self._topic_leaders.find(deadline, max_age_ms)
        self.leaders = leaders if self._only is None else {p: leaders[p] for p in leaders if p == self._only}

    def forget_leaders(self) -> None:
        """Find the leaders again when they are needed next. Thread-safe."""
        self._topic_leaders.forget()

    def list_offsets(
        self, partitions: Iterable[int], timestamp: int, deadline: Deadline, *, isolation: int = READ_UNCOMMITTED
    ) -> dict[int, int]:
        """Return the offset of each partition for a timestamp in milliseconds, EARLIEST or LATEST."""
        responses = self._ask_leaders(partitions, partial(self._list_request, timestamp, isolation), deadline)
        offsets = {}
        for response in responses:
            for row in response.topics[0].partitions:
                self.check(row.error_code, "DESCRIBE")
                offsets[row.partition_index] = row.offset
        return offsets

    def fetch(self, positions: Mapping[int, int], isolation: int, wait_ms: int, deadline: Deadline) -> list[Any]:
        """Fetch from each partition at its position.

        Return the rows of the answers; their error codes are not checked.
        """
        request = partial(self._fetch_request, positions, isolation, wait_ms)
        responses = self._ask_leaders(positions, request, deadline, at_most=_FETCH_VERSION)
        return [row for response in responses for topic in response.responses for row in topic.partitions]

    def check(self, error_code: int, operation: str) -> None:
        """Raise the error of a partition, if there is one. `operation` is the right that the request needs."""
        if error_code == Code.NONE:
            return
        if error_code == Code.TOPIC_AUTHORIZATION_FAILED:
            raise AuthorizationError(f"topic {self._topic}", operation)
        if is_retriable(error_code):
            raise PassingError(error_code)
        raise refused(f"reading topic {self._topic}", error_code)

    def _list_request(self, timestamp: int, isolation: int, partitions: list[int]) -> Any:
        topic = ListOffsetsRequest.ListOffsetsTopic
        rows = [
            topic.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=timestamp)
            for partition in partitions
        ]
        return ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=[topic(name=self._topic, partitions=rows)]
        )

    def _fetch_request(self, positions: Mapping[int, int], isolation: int, wait_ms: int, partitions: list[int]) -> Any:
        topic = FetchRequest.FetchTopic
        rows = [
            topic.FetchPartition(
                partition=partition,
                current_leader_epoch=-1,
                fetch_offset=positions[partition],
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=_PARTITION_MAX_BYTES,
            )
            for partition in partitions
        ]
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=_FETCH_MAX_BYTES,
            isolation_level=isolation,
            session_id=0,
            session_epoch=-1,
            topics=[topic(topic=self._topic, partitions=rows)],
            forgotten_topics_data=[],
            rack_id="",
        )

    def _ask_leaders(
        self,
        partitions: Iterable[int],
        request: Callable[[list[int]], Any],
        deadline: Deadline,
        *,
        at_most: int | None = None,
    ) -> list[Any]:
        by_leader = defaultdict(list)
        for partition in partitions:
            by_leader[self.leaders[partition]].append(partition)
        timeout_ms = remaining_ms(deadline, self._client.config.request_timeout_ms) + _ANSWER_GRACE_MS
        requests = [(request(owned), leader) for leader, owned in by_leader.items()]
        return self._client.send_all(requests, timeout_ms=timeout_ms, at_most=at_most)
