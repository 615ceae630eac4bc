"""The order in which one partition's batches may be sent."""

from __future__ import annotations

import math
import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.errors import DeliveryTimeoutError
from fencepost.kafka.producer.partition_queue import Batch, BatchState, PartitionQueue, sequence_after
from fencepost.kafka.records.columns import Records

_LATER = math.inf
_DELIVERY_TIMEOUT_MS = 60_000


def queue_of(*counts: int, joined: bool = True) -> PartitionQueue:
    queue = PartitionQueue.starting(("t", 0), 0 if joined else None, 1_000)
    for count in counts:
        records = Records(pa.array([b"v"] * count, pa.binary()))
        queue.append(Batch(("t", 0), queue.next_sequence, records, [b"bytes"], 5, 0))
    return queue


def send_all(queue: PartitionQueue) -> list[Batch]:
    sent = []
    while (batch := queue.sendable(_LATER)) is not None:
        queue.sent(batch, _DELIVERY_TIMEOUT_MS)
        sent.append(batch)
    return sent


def test_sequences_follow_each_other_and_wrap_after_the_last() -> None:
    assert [batch.base_sequence for batch in queue_of(3, 2, 4).batches] == [0, 3, 5]
    assert sequence_after(2**31 - 2, 5) == 3


def test_the_first_batch_of_a_transaction_is_sent_alone() -> None:
    queue = queue_of(1, 1, 1, joined=False)

    (first,) = send_all(queue)
    queue.acknowledge(first)

    assert len(send_all(queue)) == 2


def test_a_first_batch_that_fails_is_tried_alone_again() -> None:
    queue = queue_of(1, 1, joined=False)
    (first,) = send_all(queue)

    queue.fail(first, "CONCURRENT_TRANSACTIONS")

    assert send_all(queue) == [first]


def test_a_partition_that_is_in_the_transaction_sends_several_at_once() -> None:
    assert len(send_all(queue_of(1, 1, 1))) == 3


def test_nothing_is_sent_after_a_failure_until_all_is_answered() -> None:
    queue = queue_of(1, 1, 1)
    first, second, third = send_all(queue)

    queue.fail(first, "NOT_LEADER_OR_FOLLOWER")
    assert queue.sendable(_LATER) is None
    queue.fail(second, "a batch before it failed")
    assert queue.sendable(_LATER) is None
    queue.fail(third, "a batch before it failed")

    assert send_all(queue) == [first, second, third]


def test_a_failed_batch_waits_before_it_is_sent_again() -> None:
    queue = queue_of(1)
    (batch,) = send_all(queue)
    queue.fail(batch, "NOT_ENOUGH_REPLICAS")

    assert queue.retry_at > time.monotonic() - 1
    assert queue.sendable(queue.retry_at - 0.0001) is None
    assert queue.sendable(queue.retry_at) is batch


def test_acks_come_in_order_even_if_answers_do_not() -> None:
    queue = queue_of(1, 2, 3)
    first, second, third = send_all(queue)

    queue.fail(first, "REQUEST_TIMED_OUT")
    assert queue.acknowledge(second) == []
    assert queue.acknowledge(third) == []
    assert send_all(queue) == [first]

    assert [ack.base_sequence for ack in queue.acknowledge(first)] == [0, 1, 3]
    assert not queue.batches


def test_a_gap_is_expected_only_behind_a_failure() -> None:
    queue = queue_of(1, 1)
    first, second = send_all(queue)

    assert not queue.expects_gap(first)
    assert queue.expects_gap(second)
    queue.fail(first, "NOT_LEADER_OR_FOLLOWER")
    assert queue.expects_gap(second)


def test_halves_take_the_place_of_a_batch_that_was_too_large() -> None:
    queue = queue_of(1, 4, 1)
    _, large, last = send_all(queue)
    queue.acknowledge(queue.batches[0])
    halves = [
        Batch(("t", 0), 1, large.records.slice(0, 2), [b""], 0, 0),
        Batch(("t", 0), 3, large.records.slice(2, 2), [b""], 0, 0),
    ]

    queue.replace(large, halves)
    queue.fail(last, "a batch before it failed")

    assert send_all(queue) == [*halves, last]
    assert queue.next_sequence == 6


def test_time_runs_out_for_a_batch_that_is_never_acknowledged() -> None:
    queue = queue_of(1)
    queue.sent(queue.batches[0], 0)
    queue.fail(queue.batches[0], "NOT_ENOUGH_REPLICAS")

    with pytest.raises(DeliveryTimeoutError, match=r"t-0 .* NOT_ENOUGH_REPLICAS") as raised:
        queue.check_time(0)
    assert raised.value.last_problem == "NOT_ENOUGH_REPLICAS"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.booleans(), st.data())
def test_everything_is_acknowledged_once_and_in_order_despite_failures(
    counts: list[int], joined: bool, data: st.DataObject
) -> None:
    queue = queue_of(*counts, joined=joined)
    expected = [(batch.base_sequence, len(batch.records)) for batch in queue.batches]
    failures = data.draw(st.integers(0, 20))
    acked = []

    while queue.batches:
        in_flight = send_all(queue) or [batch for batch in queue.batches if batch.state is BatchState.IN_FLIGHT]
        assert in_flight
        for batch in in_flight:
            # A broker accepts a batch only after all earlier ones.
            if queue.expects_gap(batch) or (failures and data.draw(st.booleans())):
                failures = max(0, failures - 1)
                queue.fail(batch, "failure")
            else:
                acked += queue.acknowledge(batch)

    assert [(ack.base_sequence, ack.count) for ack in acked] == expected
