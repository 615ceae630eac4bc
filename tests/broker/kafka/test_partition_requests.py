"""Answers of partition leaders to a reader's requests."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Producer

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.partition_requests import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    PartitionRequests,
)
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError
from fencepost.kafka.transport.broker_client import BrokerClient, PassingError
from fencepost.kafka.transport.error_codes import Code
from tests.support.confluent import transactional_producer
from tests.support.topics import Topics, unique

_MS = 30_000


def _write_and_leave_open(bootstrap_servers: str, topic: str) -> Producer:
    """Write a committed record, and another one in a transaction that stays open."""
    producer = transactional_producer(bootstrap_servers, unique("writer"))
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce(topic, b"v", partition=0)
        producer.flush()
        if commit:
            producer.commit_transaction()
    return producer


def test_offsets_and_records_end_where_the_isolation_level_says(bootstrap_servers: str, topic: str):
    producer = _write_and_leave_open(bootstrap_servers, topic)
    with closing(BrokerClient(ClientConfig((bootstrap_servers,)))) as client:
        requests = PartitionRequests(client, topic)

        def answers() -> tuple[list[dict[int, int]], list[bool]]:
            deadline = Deadline.after(_MS)
            requests.find_leaders(deadline)
            levels = (READ_COMMITTED, READ_UNCOMMITTED)
            ends = [requests.list_offsets([0], LATEST, deadline, isolation=level) for level in levels]
            first = requests.list_offsets([0], EARLIEST, deadline)
            rows = [requests.fetch({0: 2}, level, 0, deadline)[0] for level in levels]
            return [first, *ends], [bool(row.records) for row in rows]

        # The commit's marker has the offset 1.
        assert client.run(answers, doing="the test") == ([{0: 0}, {0: 2}, {0: 3}], [False, True])
    producer.abort_transaction()


def test_a_reader_of_one_partition_knows_no_other(bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=3)
    with closing(BrokerClient(ClientConfig((bootstrap_servers,)))) as client:
        requests = PartitionRequests(client, topic, only=1)
        client.run(requests.find_leaders, Deadline.after(_MS), doing="the test")
        assert list(requests.leaders) == [1]


def test_an_error_that_may_pass_differs_from_a_missing_right(bootstrap_servers: str):
    with closing(BrokerClient(ClientConfig((bootstrap_servers,)))) as client:
        requests = PartitionRequests(client, "t")
        requests.check(Code.NONE, "READ")
        with pytest.raises(PassingError):
            requests.check(Code.NOT_LEADER_OR_FOLLOWER, "READ")
        with pytest.raises(AuthorizationError, match="READ"):
            requests.check(Code.TOPIC_AUTHORIZATION_FAILED, "READ")
