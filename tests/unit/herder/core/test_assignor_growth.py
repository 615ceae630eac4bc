"""A round of the leader does four times as much for four times the connectors or workers: counted, not timed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fencepost.herder.core.assignor import AssignorState, Member, Work, all_work, assign_eagerly, assign_incrementally
from tests.support.counting import CountedText, work_of

_FEW = 60
_LINEAR = 6.0
"""A search in a list for each connector, task or worker does 16 times as much."""
_DELAY_MS = 10_000


class _Group:
    """A group that has all of its work, its leader's state, and what a round costs."""

    def __init__(self, workers: int, connectors: int) -> None:
        self.work = all_work({CountedText(f"c{number:04}"): 3 for number in range(connectors)})
        self.members = {CountedText(f"m{number:04}"): Member(f"url-{number}") for number in range(workers)}
        self.state = AssignorState()
        self.now_ms = 0

    def round(self) -> None:
        decision = assign_incrementally(self.members, self.work, self.state, now_ms=self.now_ms, max_delay_ms=_DELAY_MS)
        self.state = decision.state
        self.members = {
            name: Member(member.url, (member.runs - decision.changes[name].revoked) | decision.changes[name].assigned)
            for name, member in self.members.items()
        }

    def settle(self) -> None:
        for _ in range(3):
            self.round()
        assert frozenset[object]().union(*(member.runs for member in self.members.values())) == self.work

    def lose_a_worker(self) -> None:
        del self.members[min(self.members)]
        self.round()
        self.now_ms += 2 * _DELAY_MS

    def gain_a_worker(self) -> None:
        self.members[CountedText("new")] = Member("url-new")


def _sizes(grows: str) -> list[tuple[int, int]]:
    return [(3, _FEW), (3, 4 * _FEW)] if grows == "connectors" else [(_FEW, _FEW // 2), (4 * _FEW, 2 * _FEW)]


@pytest.mark.parametrize("grows", ["connectors", "workers"])
@pytest.mark.parametrize("case", ["new", "settled", "lost", "gained"])
def test_a_round_with_four_times_as_many_does_four_times_as_much(grows: str, case: str) -> None:
    costs = []
    for workers, connectors in _sizes(grows):
        group = _Group(workers, connectors)
        if case != "new":
            group.settle()
        if case == "lost":
            group.lose_a_worker()
        if case == "gained":
            group.gain_a_worker()
        costs.append(work_of(group.round))
    few, many = costs
    assert many < _LINEAR * few


@pytest.mark.parametrize("grows", ["connectors", "workers"])
def test_an_eager_round_with_four_times_as_many_does_four_times_as_much(grows: str) -> None:
    costs = []
    for workers, connectors in _sizes(grows):
        group = _Group(workers, connectors)
        shares: list[Mapping[str, Work]] = []
        costs.append(
            work_of(lambda group=group, shares=shares: shares.append(assign_eagerly(group.members, group.work)))  # type: ignore[misc]
        )
        assert sum(map(len, shares[0].values())) == len(group.work)
    few, many = costs
    assert many < _LINEAR * few
