"""A worker that reads the config topic does four times as much for four times the connectors: counted, not timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.configs.codec import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TargetState,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
)
from fencepost.storage.configs.state import ClusterConfigState, apply
from tests.support.counting import work_of

_FEW = 100
_LINEAR = 5.0
"""A search in all connectors for each record does 16 times as much."""


class _Name(str):
    """A connector's name whose look-ups are calls, which are counted: a copy name by name looks each of them up."""

    __slots__ = ()

    def __hash__(self) -> int:
        return str.__hash__(self)

    __eq__ = str.__eq__


def _of_connectors(number: int) -> Iterator[ConfigRecord]:
    for connector in (_Name(f"c{one}") for one in range(number)):
        yield TargetStateRecord(connector, TargetState.STARTED)
        yield ConnectorRecord(connector, {"tasks.max": "1"})
        yield TaskRecord(ConnectorTaskId(connector, 0), {"task": "0"})
        yield CommitRecord(connector, 1)
        yield TaskCountRecord(connector, 1)


def _of_tasks(number: int) -> Iterator[ConfigRecord]:
    connector = _Name("c")
    yield ConnectorRecord(connector, {"tasks.max": str(number)})
    for _ in range(2):
        for task in range(number):
            yield TaskRecord(ConnectorTaskId(connector, task), {"task": str(task)})
        yield CommitRecord(connector, number)
        yield TaskCountRecord(connector, number)


def _replay(records: list[ConfigRecord]) -> ClusterConfigState:
    state = ClusterConfigState()
    for offset, record in enumerate(records):
        state, _ = apply(state, offset, record)
    return state


@pytest.mark.parametrize("kind", [_of_connectors, _of_tasks], ids=["connectors", "tasks"])
def test_the_records_of_four_times_as_many_do_four_times_as_much(kind: Callable[[int], Iterator[ConfigRecord]]) -> None:
    costs = []
    for number in (_FEW, 4 * _FEW):
        records = list(kind(number))
        costs.append(work_of(lambda records=records: _replay(records)))  # type: ignore[misc]
        assert sum(_replay(records).task_counts.values()) == number
    few, many = costs
    assert many < _LINEAR * few
