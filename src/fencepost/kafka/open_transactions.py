"""Finds out which transaction keeps a partition's read_committed consumers waiting (KIP-664's requests)."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import kafka.errors as client_errors
from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest

from fencepost.kafka.control_client import ControlClient

_NO_TRANSACTION: Final = -1


async def find_open_transactions(client: ControlClient, topic: str, partition: int, leader: int, before: int) -> str:
    """Describe the transactions that are open in a partition and began before an offset; empty if none is found.

    The broker may be too old for these requests or the principal may lack DESCRIBE on the transactional ids: what
    cannot be learnt is left out.
    """
    described: list[str] = []
    with suppress(client_errors.KafkaError):
        producers = await _open_producers(client, topic, partition, leader, before)
        names: dict[int, str] = {}
        with suppress(client_errors.KafkaError):
            names = await _transactional_ids(client, list(producers))
        for producer_id, start in producers.items():
            name = f"transactional id {names[producer_id]}" if producer_id in names else "a transactional id"
            described.append(f"the transaction of {name} (producer id {producer_id}) that began at offset {start}")
    return " and ".join(described)


async def _open_producers(
    client: ControlClient, topic: str, partition: int, leader: int, before: int
) -> dict[int, int]:
    """The first offset of each transaction that is open in the partition, by producer id."""
    asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    response = await client.send(DescribeProducersRequest(topics=[asked]), leader)
    row = response.topics[0].partitions[0]
    return {
        producer.producer_id: producer.current_txn_start_offset
        for producer in row.active_producers
        if _NO_TRANSACTION < producer.current_txn_start_offset < before
    }


async def _transactional_ids(client: ControlClient, producer_ids: list[int]) -> dict[int, str]:
    found = {}
    for broker in client.broker_ids():
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=producer_ids)
        response = await client.send(request, broker)
        found.update({row.producer_id: row.transactional_id for row in response.transaction_states})
    return found
