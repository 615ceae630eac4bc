"""Writers that outlive their transaction: an executor of a cancelled job wakes up when the next batch is on its way."""

from __future__ import annotations

import pytest

from fencepost.kafka.errors import InvalidProducerEpochError
from tests.support.checker import read_topic, values
from tests.support.topics import unique
from tests.support.writing import open_producer, producer_config, records, write_in_transaction


@pytest.mark.parametrize("wrote_before", [True, False])
def test_a_writer_of_an_aborted_transaction_cannot_write_into_the_next_one(
    bootstrap_servers: str, topic: str, wrote_before: bool
):
    with open_producer(producer_config(bootstrap_servers), unique("task")) as producer:
        producer.begin_transaction()
        straggler = producer.writer()
        if wrote_before:
            write_in_transaction(producer, topic, [b"aborted"])
        producer.abort_transaction()

        producer.begin_transaction()
        # Until the abort's marker is written the leader would take the straggler's batch for a repetition.
        write_in_transaction(producer, topic, [b"next"])
        straggler.write(topic, 0, records([b"straggler"]))
        with pytest.raises(InvalidProducerEpochError):
            straggler.flush()
        straggler.close()
        producer.commit_transaction()

    assert values(read_topic(bootstrap_servers, topic)) == [b"next"]
