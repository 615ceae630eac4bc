"""The requests to a transaction coordinator, their versions, and the error codes of the answers. No I/O.

InitProducerId and EndTxn: https://kafka.apache.org/protocol. AddPartitionsToTxn is for transaction version 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from fencepost.kafka.producer.transaction import BEING_COMPLETED, ProducerIdentity
from fencepost.kafka.transport.error_codes import Code

# The last versions of these requests under transaction version 1. Later versions mean transaction version 2, or are
# only for brokers.
ADD_PARTITIONS_V1: Final = 3
END_TXN_V1: Final = 4
END_TXN_V2: Final = 5
PRODUCE_V2: Final = 12
INIT_PRODUCER_ID: Final = 5
"""The last version without two-phase commit (KIP-939)."""
RAISES_EPOCH: Final = 3
"""The first version in which a producer sends its current epoch (KIP-360)."""

TRANSACTION_REQUESTS: Final = {InitProducerIdRequest: RAISES_EPOCH, AddPartitionsToTxnRequest: 0, EndTxnRequest: 0}
"""The requests that a cluster must support for exactly-once delivery, each with the lowest version."""


def init_producer_id_request(
    transactional_id: str | None, current: ProducerIdentity, *, timeout_ms: int
) -> InitProducerIdRequest:
    """Return the request for a producer id. `transactional_id` is None for writes outside of transactions."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=current.producer_id,
        producer_epoch=current.epoch,
    )


def add_partitions_request(
    transactional_id: str, identity: ProducerIdentity, partitions: Mapping[str, Sequence[int]]
) -> AddPartitionsToTxnRequest:
    """Return the request that adds partitions, given by topic, to the open transaction (transaction version 1)."""
    topic_class = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[topic_class(name=name, partitions=list(numbers)) for name, numbers in partitions.items()],
    )


def end_request(transactional_id: str, identity: ProducerIdentity, *, committed: bool) -> EndTxnRequest:
    """Return the request to commit or abort the open transaction."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=committed,
    )


def top_level(answer: Any) -> int:
    """Return the error code at the top level of an answer."""
    return int(answer.error_code)


def concurrent_while_completing(answer: Any) -> int:
    """Return the error code of a described transaction; CONCURRENT_TRANSACTIONS while it is being completed."""
    (state,) = answer.transaction_states
    return int(Code.CONCURRENT_TRANSACTIONS if state.transaction_state in BEING_COMPLETED else state.error_code)


def shown_state(row: Any) -> str:
    """Return the state of a described transaction, for messages."""
    partitions = ", ".join(f"{topic.topic}-{number}" for topic in row.topics for number in topic.partitions)
    of = f" with {partitions}" if partitions else ""
    return f"{row.transaction_state} (producer id {row.producer_id}, epoch {row.producer_epoch}){of}"


def worst_of_partitions(answer: Any) -> int:
    """Return the error code that applies to the whole request, because either all partitions are added or none."""
    codes = {
        result.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }
    decisive = codes - {Code.NONE, Code.OPERATION_NOT_ATTEMPTED}
    return int(min(decisive, default=Code.NONE))
