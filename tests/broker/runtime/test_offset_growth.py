"""What requests about offsets do does not grow with the number of source partitions: counted, not timed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fencepost.config.connector_config import ConnectorConfig
from fencepost.kafka.transport.connection import Connection
from fencepost.runtime.connector_offsets import alter_offsets, committed_offsets, reset_offsets
from tests.support.counting import work_of
from tests.support.sequence_source import properties
from tests.support.task_runner import TaskRunner
from tests.support.topics import unique

_FEW = 250
_WRITES = ("ProduceRequest", "EndTxnRequest", "InitProducerIdRequest")


def _confirm() -> None:
    """Nothing else changes the connector."""


def _connector(runner: TaskRunner, partitions: int) -> ConnectorConfig:
    """A connector without tasks that has an offset in so many source partitions, which were read."""
    config = ConnectorConfig.from_properties(properties(unique("c"), unique("topic")))
    offsets = [({"task.id": str(number)}, {"saved": number}) for number in range(partitions)]
    alter_offsets(runner.worker, config, offsets, confirm=_confirm)
    assert len(committed_offsets(runner.worker, config)) == partitions
    return config


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many requests of each kind were sent."""
    sent: Counter[str] = Counter()
    send, send_parts = Connection.send, Connection.send_parts

    def counted(connection: Connection, request: Any, **more: Any) -> None:
        sent[type(request).__name__] += 1
        send(connection, request, **more)

    def counted_parts(connection: Connection, request: Any, *given: Any, **more: Any) -> None:
        sent[request.__name__] += 1
        send_parts(connection, request, *given, **more)

    monkeypatch.setattr(Connection, "send", counted)
    monkeypatch.setattr(Connection, "send_parts", counted_parts)
    return sent


def test_one_offset_is_altered_among_four_times_as_many_at_the_same_cost(runner: TaskRunner) -> None:
    costs = []
    for partitions in (_FEW, _FEW, 4 * _FEW):
        config = _connector(runner, partitions)
        one = [({"task.id": "7"}, {"saved": 8})]
        costs.append(
            work_of(lambda config=config, one=one: alter_offsets(runner.worker, config, one, confirm=_confirm))
        )  # type: ignore[misc]
        assert ({"task.id": "7"}, {"saved": 8}) in committed_offsets(runner.worker, config)
    # The first one also sets up connections.
    _, few, many = costs
    assert many < 1.5 * few


def test_a_reset_is_one_transaction_whatever_the_number_of_source_partitions(
    runner: TaskRunner, sent: Counter[str]
) -> None:
    found = []
    for partitions in (_FEW, _FEW, 4 * _FEW):
        config = _connector(runner, partitions)
        sent.clear()
        reset_offsets(runner.worker, config, confirm=_confirm)
        found.append({name: sent[name] for name in _WRITES})
        assert committed_offsets(runner.worker, config) == []
    assert found[1] == found[2] == dict.fromkeys(_WRITES, 1)
