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

# Fetch version 13 names topics by id, which only Metadata knows; nothing else in it is needed.
_FETCH_VERSION: Final = 12
_FETCH_MAX_BYTES: Final = 16 * 1024 * 1024
_PARTITION_MAX_BYTES: Final = 4 * 1024 * 1024
# At the deadline, an answer that names what is missing is more useful than a time-out.
_ANSWER_GRACE_MS: Final = 5_000

READ_UNCOMMITTED: Final = 0
"""As an isolation level: records of open and of aborted transactions are read as well."""

READ_COMMITTED: Final = 1
"""As an isolation level: nothing of aborted transactions is read, and nothing behind the first open one."""

EARLIEST: Final = -2
"""As a timestamp: the first offset of a partition."""

LATEST: Final = -1
"""As a timestamp: the end of a partition."""


class PartitionRequests:
    """Asks the leaders of a topic's partitions, or of `only` one. To be called in procedures of its client.

    Its methods raise AuthorizationError, TopicNotFoundError, and what TRANSIENT lists if the call may be repeated.
    """

    def __init__(self, client: BrokerClient, topic: str, *, only: int | None = None) -> None:
        self.leaders: Mapping[int, int] = {}
        """The leader of each partition, as `find_leaders` last found them."""
        self._client = client
        self._topic = topic
        self._only = only
        self._topic_leaders = TopicLeaders(client, topic)

    @property
    def topic_id(self) -> UUID | None:
        """The id of the topic with these leaders; None before the first search, and from brokers before 2.8."""
        return self._topic_leaders.topic_id

    def find_leaders(self, deadline: Deadline, max_age_ms: float | None = None) -> None:
        """Look the leaders up, unless they were looked up within the last `max_age_ms`; None: unless they are known."""
        leaders = self._topic_leaders.find(deadline, max_age_ms)
        self.leaders = leaders if self._only is None else {p: leaders[p] for p in leaders if p == self._only}

    def forget_leaders(self) -> None:
        """Look the leaders up again the next time. Thread-safe."""
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
        """Return the row of each partition in the answers to Fetch, from its position. Their error codes are not checked."""
        request = partial(self._fetch_request, positions, isolation, wait_ms)
        responses = self._ask_leaders(positions, request, deadline, at_most=_FETCH_VERSION)
        return [row for response in responses for topic in response.responses for row in topic.partitions]

    def check(self, error_code: int, operation: str) -> None:
        """Raise the error of a partition, if it has one. `operation` is the right that the request needs."""
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
