"""Requests to a transaction coordinator, and the error code that counts in each answer."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import DescribeTransactionsResponse
from kafka.protocol.producer import AddPartitionsToTxnResponse

from fencepost.kafka.producer.coordinator_requests import (
    add_partitions_request,
    concurrent_while_completing,
    worst_of_partitions,
)
from fencepost.kafka.producer.transaction import ProducerIdentity
from fencepost.kafka.transport.error_codes import Code

NONE, NOT_ATTEMPTED, UNKNOWN = Code.NONE, Code.OPERATION_NOT_ATTEMPTED, Code.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("codes", "decisive"),
    [
        ([NONE, NONE], NONE),
        ([NOT_ATTEMPTED, UNKNOWN], UNKNOWN),
        ([NONE, Code.TOPIC_AUTHORIZATION_FAILED, NOT_ATTEMPTED], Code.TOPIC_AUTHORIZATION_FAILED),
        ([NOT_ATTEMPTED, Code.PRODUCER_FENCED], Code.PRODUCER_FENCED),
    ],
)
def test_the_refusal_of_one_partition_counts_for_all(codes: list[int], decisive: int) -> None:
    result = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    partitions = [
        result.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
        for number, code in enumerate(codes)
    ]
    topics = [result(name="t", results_by_partition=partitions)]
    answer = AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=topics)
    assert worst_of_partitions(answer) == decisive


def test_partitions_are_added_by_topic() -> None:
    request = add_partitions_request("id", ProducerIdentity(7, 3), {"a": [0, 2], "b": [1]})
    assert [(topic.name, topic.partitions) for topic in request.v3_and_below_topics] == [("a", [0, 2]), ("b", [1])]
    assert (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch) == (7, 3)


@pytest.mark.parametrize(
    ("state", "code"), [("PrepareCommit", Code.CONCURRENT_TRANSACTIONS), ("CompleteCommit", NONE), ("Ongoing", NONE)]
)
def test_a_transaction_that_is_being_completed_is_asked_for_again(state: str, code: int) -> None:
    row = DescribeTransactionsResponse.TransactionState(
        error_code=0, transactional_id="id", transaction_state=state, transaction_timeout_ms=60_000,
        transaction_start_time_ms=0, producer_id=7, producer_epoch=3, topics=[],
    )  # fmt: skip
    answer = DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=[row])
    assert concurrent_while_completing(answer) == code
