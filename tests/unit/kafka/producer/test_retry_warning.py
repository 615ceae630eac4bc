"""The log about batches that a broker refuses for a while."""

from __future__ import annotations

from contextlib import closing

import pytest

from fencepost.kafka.producer import retry_warning
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import Transaction, TransactionVersion
from fencepost.kafka.transport.error_codes import Code
from tests.support.fault_proxy import ApiKey
from tests.support.scripted_broker import ScriptedBroker
from tests.support.topics import unique
from tests.support.writing import numbered, producer_config, write_values


def _write(topic: str) -> None:
    """Write to two partitions, whose leader refuses the batches four times."""
    transaction = Transaction("id", 7, 3, TransactionVersion.V2, {})
    with (
        ScriptedBroker(partitions=2) as broker,
        closing(RecordWriter(producer_config(broker.address), transaction)) as writer,
    ):
        broker.script(ApiKey.PRODUCE, *[Code.NOT_ENOUGH_REPLICAS] * 4)
        for partition in range(2):
            write_values(writer, topic, numbered(3), partition=partition)
        writer.flush()


def test_a_batch_that_fails_for_long_is_named_once_with_the_brokers_code(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_warning, "PATIENCE_S", 0.0)
    topic = unique("topic")
    _write(topic)
    (told,) = caplog.messages
    assert told.startswith(f"A batch for {topic}-")
    assert (
        "until delivery.timeout.ms=120000 is over. The last problem was: NOT_ENOUGH_REPLICAS from the leader." in told
    )


def test_a_batch_that_fails_for_a_moment_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    _write(unique("topic"))
    assert caplog.messages == []
