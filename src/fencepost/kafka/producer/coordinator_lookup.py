"""Finds the transaction coordinators of transactional ids: FindCoordinator (https://kafka.apache.org/protocol)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from fencepost.kafka.deadline import Deadline
from fencepost.kafka.transport.cluster import Cluster
from fencepost.kafka.transport.connection import Address
from fencepost.kafka.transport.error_codes import Code
from fencepost.kafka.transport.interruption import Interruption

_BATCH: Final = 500
# From this version on, several keys can be looked up at once.
_BATCHED: Final = 4


def ask_for_coordinators(
    cluster: Cluster, ids: Sequence[str], deadline: Deadline, interruption: Interruption | None = None
) -> Iterator[tuple[str, Any]]:
    """Ask once for the coordinator of each id, in batches; yield the answers' rows by id.

    Raises the errors of `Cluster.call`.
    """
    for start in range(0, len(ids), _BATCH):
        left = list(ids[start : start + _BATCH])
        while left:
            answer = cluster.call(_request(left), deadline, interruption=interruption)
            rows = _rows(answer)
            yield from zip(left, rows, strict=False)
            left = left[len(rows) :]


def find_coordinator(cluster: Cluster, transactional_id: str, deadline: Deadline) -> tuple[int, Address]:
    """Return the error code, which is NONE or a permanent error, and the address of the coordinator.

    On a new cluster this request also makes the brokers create their transaction log. Raises the errors of
    `Cluster.settle`.
    """
    answer = cluster.settle(
        _request([transactional_id]),
        deadline,
        code_of=lambda answer: int(_rows(answer)[0].error_code),
        what=f"The search for the transaction coordinator of {transactional_id} (see __transaction_state)",
    )
    row = _rows(answer)[0]
    return (Code.NONE if row.error_code == Code.NONE else row.error_code), (row.host, row.port)


def _request(ids: list[str]) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key=ids[0], key_type=CoordinatorType.TRANSACTION, coordinator_keys=ids)


def _rows(answer: Any) -> list[Any]:
    return list(answer.coordinators) if answer.API_VERSION >= _BATCHED else [answer]
