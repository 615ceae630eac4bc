"""A wait for answers ends with the first answer, or at a given time."""

from __future__ import annotations

import time

from kafka.protocol.metadata import MetadataRequest

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.transport.answers import wait_for_answers
from fencepost.kafka.transport.connection import Connection
from tests.support.scripted_broker import ScriptedBroker


def test_the_connection_with_an_answer_is_returned() -> None:
    with ScriptedBroker(partitions=1) as broker:
        host, _, port = broker.address.rpartition(":")
        connection = Connection((host, int(port)), ClientConfig((broker.address,)))
        connection.send(MetadataRequest(topics=[], allow_auto_topic_creation=False), at_most=9)
        assert wait_for_answers([connection], [time.monotonic() + 3_600]) == [connection]
        connection.receive()
        assert not connection.in_flight
        connection.close()


def test_without_an_answer_the_wait_ends_at_the_next_moment() -> None:
    now = time.monotonic()
    assert wait_for_answers([], [now - 1, now + 0.05, now + 3_600]) == []
