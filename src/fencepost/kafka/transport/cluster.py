"""The cached metadata of a cluster: its brokers, its topics' partitions and their leaders, and settings of topics.

There is one Cluster for each client configuration and process. Writers come and go with every Spark job, but the
metadata stays for `metadata.max.age.ms`, or until a broker's answer shows that it is outdated.
"""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Backoff, Deadline
from fencepost.kafka.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    NoDescriptorError,
    PartitionGoneError,
    TopicNotFoundError,
)
from fencepost.kafka.transport.aging import Aging
from fencepost.kafka.transport.connection import Address
from fencepost.kafka.transport.created_topics import UNKNOWN_MS, unknown_until
from fencepost.kafka.transport.error_codes import PASSING, Code, code_name, refused
from fencepost.kafka.transport.interruption import Interruption
from fencepost.kafka.transport.topic_settings import TopicSettings, ask_settings
from fencepost.kafka.transport.unreachable_warning import note_answer, warn_while_unreachable

_METADATA_VERSION: Final = 9
"""The version of Metadata. From version 10 on it has topic ids, which are not needed here."""

_ANSWER_MS: Final = 1_000
"""The minimum time to wait for an answer: shortly before a deadline, a broker that answers at once gets this time."""

_GROWTH_GRACE_MS: Final = 1_000
"""How long to ask for an unknown partition, because brokers learn of added partitions at different times."""

_NOT_YET: Final = (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.LEADER_NOT_AVAILABLE)
"""Error codes of a topic whose partitions are missing, but may appear soon."""

_Leaders = tuple[int, ...]
"""The ids of the leaders of a topic's partitions; -1 for a partition without a leader."""


class Cluster:
    """The cached metadata of one cluster. Thread-safe."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._brokers: dict[int, Address] = {}
        self._topics: Aging[_Leaders] = Aging(config.metadata_max_age_ms)
        self._settings: Aging[TopicSettings] = Aging(config.metadata_max_age_ms)
        # Topics that metadata requests must not create automatically, because they need other settings than the
        # defaults.
        self._kept: set[str] = set()

    @classmethod
    def of(cls, config: ClientConfig) -> Cluster:
        """Return this process's view of the cluster.

        The object is shared. It lives while it is referenced, or is among the most recently requested clusters.
        """
        with _CLUSTERS_LOCK:
            found = _CLUSTERS.setdefault(config, cls(config))
            if found not in _RECENT:
                _RECENT.append(found)
            return found

    def partitions(self, topic: str, deadline: Deadline) -> int:
        """Return the number of a topic's partitions. Brokers with automatic topic creation create the topic.

        Raises TopicNotFoundError, AuthorizationError or BrokerUnavailableError.
        """
        return len(self._leaders(topic, deadline))

    def learn_topics(self, topics: Iterable[str], deadline: Deadline) -> None:
        """Request the partitions of topics together. Brokers with automatic topic creation create missing topics.

        An error of a single topic is raised later, for callers that request its partitions. Raises
        BrokerUnavailableError.
        """
        grace = Deadline.after(UNKNOWN_MS)
        backoff = Backoff(self.config.retry_backoff_ms / 4, self.config.retry_backoff_max_ms)
        wanted = set(topics) - self.known_partitions().keys()
        while wanted:
            for row in self._ask_metadata(sorted(wanted), deadline):
                if self._learn(row) or row.error_code not in _NOT_YET:
                    wanted.discard(row.name)
            if grace.passed or deadline.passed:
                return
            if wanted:
                backoff.sleep(deadline)

    def prefetch_topics(self, topics: Collection[str], deadline: Deadline) -> None:
        """Request the unknown partitions and settings of all topics, each in one request.

        If an answer lacks a topic, the topic is requested again when it is needed. Raises the errors of `call`.
        """
        if unknown := [name for name in sorted(topics) if self._topics.get(name) is None]:
            for row in self._ask_metadata(unknown, deadline):
                self._learn(row)
        if unset := [name for name in sorted(topics) if self._settings.get(name) is None]:
            self._learn_settings(unset, deadline)

    def refresh_topics(self, topics: Iterable[str], deadline: Deadline) -> None:
        """Request the partitions of topics again, and forget topics that the brokers do not report.

        Brokers do not create missing topics. Raises the errors of `call`.
        """
        names = sorted(set(topics))
        for name in names:
            self.forget_topic(name)
        if names:
            for row in self._ask_metadata(names, deadline, creates=False):
                self._learn(row)

    def kept_partitions(self, topic: str, deadline: Deadline) -> int:
        """Return the number of partitions of a topic that needs its own settings.

        From now on, metadata requests never make brokers create the topic.

        Raises the errors of `partitions`.
        """
        with self._lock:
            self._kept.add(topic)
        return self.partitions(topic, deadline)

    def grown_partitions(self, topic: str, partition: int, deadline: Deadline) -> int:
        """Return the brokers' current number of a topic's partitions, because `partition` is unknown to this process.

        Brokers are asked until one knows the partition, or until all should have learnt of it. Raises the errors of
        `partitions`.
        """
        backoff = Backoff(self.config.retry_backoff_ms / 4, self.config.retry_backoff_max_ms)
        grace = Deadline.after(_GROWTH_GRACE_MS)
        while True:
            self.forget_topic(topic)
            count = self.partitions(topic, deadline)
            if partition < count or grace.passed or deadline.passed:
                return count
            backoff.sleep(deadline)

    def known_partitions(self) -> dict[str, int]:
        """Return the cached numbers of partitions, by topic."""
        return {name: len(leaders) for name, leaders in self._topics.fresh().items()}

    def leader(self, topic: str, partition: int, deadline: Deadline) -> Address:
        """Return the address of a partition's leader. If there is no leader, wait for an election.

        If the partition is unknown, its metadata is requested: other processes may learn of added partitions earlier.

        Raises TopicNotFoundError, PartitionGoneError, AuthorizationError, BrokerUnavailableError.
        """
        backoff = Backoff(self.config.retry_backoff_ms / 4, self.config.retry_backoff_max_ms)
        grace = Deadline.after(UNKNOWN_MS)
        while True:
            leaders = self._leaders(topic, deadline)
            with self._lock:
                address = self._brokers.get(leaders[partition]) if partition < len(leaders) else None
            if address is not None:
                return address
            if partition >= len(leaders) and (grace.passed or deadline.passed):
                raise PartitionGoneError(topic, partition)
            if deadline.passed:
                raise BrokerUnavailableError(f"{topic}-{partition} has no leader: check the health of the brokers")
            self.forget_topic(topic)
            backoff.sleep(deadline)

    def forget_topic(self, topic: str) -> None:
        """Request the topic's leaders again when they are needed next."""
        self._topics.forget(topic)

    def topic_settings(self, topic: str, deadline: Deadline) -> TopicSettings:
        """Return the settings of a topic that limit what is written to it. Raises the errors of `call`."""
        return self._settings.get(topic) or self._learn_settings([topic], deadline)[topic]

    def forget_settings(self, topic: str) -> None:
        """Request the topic's settings again when they are needed next."""
        self._settings.forget(topic)

    def broker_ids(self) -> list[int]:
        """Return the ids of the brokers that are known."""
        with self._lock:
            return list(self._brokers)

    def address(self, broker: int) -> Address | None:
        """Return the address of a broker; None if no broker with this id is known."""
        with self._lock:
            return self._brokers.get(broker)

    def learn_brokers(self, metadata: Any) -> None:
        """Store the brokers that an answer to Metadata lists."""
        with self._lock:
            self._brokers = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}

    def settle(
        self, request: Any, deadline: Deadline, *, at_most: int | None = None, code_of: Callable[[Any], int], what: str
    ) -> Any:
        """Send a request to any broker, and repeat it until the error code of an answer is not retriable.

        `what` is for messages.

        Raises the errors of `call`, and BrokerUnavailableError after the deadline.
        """
        backoff = Backoff(self.config.retry_backoff_ms / 4, self.config.retry_backoff_max_ms)
        while True:
            answer = self.call(request, deadline, at_most=at_most)
            code = code_of(answer)
            if code not in PASSING:
                return answer
            if deadline.passed:
                raise BrokerUnavailableError(
                    f"{what} did not end in time ({code_name(code)}): check the health of the brokers"
                )
            backoff.sleep(deadline)

    def call(
        self,
        request: Any,
        deadline: Deadline,
        *,
        at_most: int | None = None,
        interruption: Interruption | None = None,
    ) -> Any:
        """Send a request to one broker after the other, until one answers.

        Raises BrokerUnavailableError that names bootstrap.servers after `deadline` has passed. Immediately raises
        AuthenticationError, UnsupportedBrokerError, and BrokerUnavailableError if the call is interrupted.
        """
        interruption = interruption or Interruption()
        backoff = Backoff(self.config.retry_backoff_ms / 2, self.config.retry_backoff_max_ms)
        since = time.monotonic()
        while True:
            for address in self._addresses():
                interruption.check()
                try:
                    answer = self.ask(address, request, deadline, at_most=at_most, interruption=interruption)
                except BrokerUnavailableError as error:
                    last = error
                else:
                    note_answer(self.config.bootstrap_servers)
                    return answer
            if deadline.passed and isinstance(last, NoDescriptorError):
                raise last
            if deadline.passed:
                servers = ",".join(self.config.bootstrap_servers)
                raise BrokerUnavailableError(
                    f"No Kafka broker answers at bootstrap.servers={servers}: check that the brokers run and that the "
                    f"address and security.protocol fit their listener. The last problem was: {last}",
                    address=servers,
                ) from last
            if not isinstance(last, NoDescriptorError):
                warn_while_unreachable(self.config.bootstrap_servers, since)
            interruption.sleep(min(backoff.next_s(), deadline.remaining_s))

    def ask(
        self,
        address: Address,
        request: Any,
        deadline: Deadline,
        *,
        at_most: int | None = None,
        interruption: Interruption,
    ) -> Any:
        """Send a request to one broker, once. Raises the errors of `Connection`."""
        deadline = max(deadline, Deadline.after(_ANSWER_MS), key=lambda moment: moment.at)
        connection = interruption.take(self.config, address, deadline)
        try:
            return connection.call(request, at_most=at_most, deadline=deadline)
        finally:
            interruption.give_back(self.config, connection)

    # ---------------------------------------------------------------------------------------------------------

    def _addresses(self) -> list[Address]:
        with self._lock:
            known = list(self._brokers.values())
        random.shuffle(known)
        given = [(host.strip("[]"), int(port)) for host, _, port in _split(self.config.bootstrap_servers)]
        return known + [address for address in given if address not in known]

    def _leaders(self, name: str, deadline: Deadline) -> _Leaders:
        return self._topics.get(name) or self._ask_leaders(name, deadline)

    def _ask_leaders(self, name: str, deadline: Deadline) -> _Leaders:
        backoff = Backoff(self.config.retry_backoff_ms / 4, self.config.retry_backoff_max_ms)
        grace = unknown_until(self.config.bootstrap_servers, name)
        while True:
            (row,) = self._ask_metadata([name], deadline)
            leaders = self._learn(row)
            if leaders is not None:
                return leaders
            if row.error_code == Code.TOPIC_AUTHORIZATION_FAILED:
                raise AuthorizationError(f"topic {name}", "DESCRIBE")
            if row.error_code not in _NOT_YET:
                advice = (
                    "take 1 to 249 letters, digits, '.', '_' and '-'" if row.error_code == Code.INVALID_TOPIC else None
                )
                raise refused(f"the topic name {name!r}", row.error_code, advice)
            if grace.passed or deadline.passed:
                raise TopicNotFoundError(name)
            backoff.sleep(deadline)

    def _learn(self, row: Any) -> _Leaders | None:
        """Store the leaders from a row of metadata, and return them; None if the topic has no partitions."""
        leaders = {partition.partition_index: partition.leader_id for partition in row.partitions}
        if row.error_code != Code.NONE or not leaders:
            return None
        found = tuple(leaders.get(index, -1) for index in range(max(leaders) + 1))
        self._topics.put({row.name: found})
        return found

    def _ask_metadata(self, names: Sequence[str], deadline: Deadline, *, creates: bool = True) -> Sequence[Any]:
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        with self._lock:
            creates = creates and self._kept.isdisjoint(names)
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=creates)
        answer = self.call(request, deadline, at_most=_METADATA_VERSION)
        self.learn_brokers(answer)
        rows: Sequence[Any] = answer.topics
        return rows

    def _learn_settings(self, topics: Sequence[str], deadline: Deadline) -> dict[str, TopicSettings]:
        """Request and store the settings of topics. Settings that the brokers do not show are unknown."""
        learnt = ask_settings(self.call, topics, deadline)
        self._settings.put(learnt)
        return learnt


def _split(servers: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    return (server.rpartition(":") for server in servers)


# The references are weak, so that the metadata of a configuration is dropped once no connector uses it any more.
_CLUSTERS: weakref.WeakValueDictionary[ClientConfig, Cluster] = weakref.WeakValueDictionary()
_RECENT: deque[Cluster] = deque(maxlen=8)
_CLUSTERS_LOCK = threading.Lock()


def _forget_after_fork() -> None:
    global _CLUSTERS_LOCK  # noqa: PLW0603 - a lock that another thread held at the fork would stay locked here
    _CLUSTERS_LOCK = threading.Lock()
    _CLUSTERS.clear()
    _RECENT.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
