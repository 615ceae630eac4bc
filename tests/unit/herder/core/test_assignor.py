"""The assignor: properties of single rounds, and of many rounds in a simulated group."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import (
    NOTHING,
    AssignmentDecision,
    AssignorState,
    Member,
    Unit,
    Work,
    all_work,
    assign_eagerly,
    assign_incrementally,
)

DELAY_MS = 10_000

_names = st.sampled_from(["a", "b", "c", "d", "e"])
_task_counts = st.dictionaries(_names, st.integers(0, 5))
_ids = st.sampled_from([f"m{number}" for number in range(6)])


def of_kind(work: Work, kind: type) -> Work:
    return frozenset(unit for unit in work if isinstance(unit, kind))


def sizes(shares: Mapping[str, Work], kind: type) -> list[int]:
    return [len(of_kind(share, kind)) for share in shares.values()]


def is_even(shares: Mapping[str, Work]) -> bool:
    return all(max(sizes(shares, kind)) - min(sizes(shares, kind)) <= 1 for kind in (str, ConnectorTaskId))


def one_round(members: Mapping[str, Work], work: Work, state: AssignorState, now_ms: int = 0) -> AssignmentDecision:
    joined = {name: Member(f"url-{name}", runs) for name, runs in members.items()}
    return assign_incrementally(joined, work, state, now_ms=now_ms, max_delay_ms=DELAY_MS)


def after(members: Mapping[str, Work], decision: AssignmentDecision) -> dict[str, Work]:
    """The work of members after they have applied a decision."""
    return {
        name: (runs - decision.changes[name].revoked) | decision.changes[name].assigned
        for name, runs in members.items()
    }


@st.composite
def running_members(draw: st.DrawFn) -> tuple[dict[str, Work], Work]:
    """Members with different parts of the configured work, and with some work that was deleted meanwhile."""
    work = all_work(draw(_task_counts))
    deleted = all_work({"deleted": draw(st.integers(0, 2))}) if draw(st.booleans()) else NOTHING
    names = draw(st.lists(_ids, min_size=1, unique=True))
    owner = {unit: draw(st.sampled_from([*names, None])) for unit in sorted(work | deleted, key=str)}
    return {name: frozenset(unit for unit in owner if owner[unit] == name) for name in names}, work


@given(st.lists(_ids, min_size=1, unique=True), _task_counts)
def test_an_eager_round_assigns_everything_evenly(names: list[str], task_counts: dict[str, int]):
    shares = assign_eagerly(names, all_work(task_counts))
    assert sorted(map(str, (unit for share in shares.values() for unit in share))) == sorted(
        map(str, all_work(task_counts))
    )
    assert is_even(shares)
    assert max(map(len, shares.values())) - min(map(len, shares.values())) <= 1


@given(running_members())
def test_a_group_settles_in_two_rounds(given_members: tuple[dict[str, Work], Work]):
    members, work = given_members
    first = one_round(members, work, AssignorState())
    members = after(members, first)
    second = one_round(members, work, first.state)
    members = after(members, second)
    assert NOTHING.union(*members.values()) == work
    assert sum(map(len, members.values())) == len(work)
    assert is_even(members)
    third = one_round(members, work, second.state)
    assert all(not change.revoked and not change.assigned for change in third.changes.values())


@given(running_members())
def test_nothing_is_assigned_while_another_member_runs_it(given_members: tuple[dict[str, Work], Work]):
    members, work = given_members
    decision = one_round(members, work, AssignorState())
    running = NOTHING.union(*members.values())
    assigned = [unit for change in decision.changes.values() for unit in change.assigned]
    assert not running.intersection(assigned)
    assert len(assigned) == len(set(assigned))
    assert all(change.revoked <= members[name] for name, change in decision.changes.items())


@given(running_members())
def test_no_more_is_moved_than_balance_takes(given_members: tuple[dict[str, Work], Work]):
    members, work = given_members
    decision = one_round(members, work, AssignorState())
    for kind in (str, ConnectorTaskId):
        floor, extra = divmod(len(of_kind(work, kind)), len(members))
        kept = {name: len(of_kind(runs & work, kind)) for name, runs in members.items()}
        least = min(
            sum(max(0, count - floor - (name in more)) for name, count in kept.items())
            for more in combinations(members, extra)
        )
        revoked = [unit for change in decision.changes.values() for unit in of_kind(change.revoked & work, kind)]
        assert len(revoked) == least


@given(running_members(), _ids)
def test_work_that_two_members_run_is_stopped_by_both(given_members: tuple[dict[str, Work], Work], another: str):
    members, work = given_members
    contested = members[min(members)]
    members = members | {"z" + another: contested}
    decision = one_round(members, work, AssignorState())
    for unit in contested:
        assert all(unit in decision.changes[name].revoked for name, runs in members.items() if unit in runs)
        assert not any(unit in change.assigned for change in decision.changes.values())


def test_the_work_of_a_lost_member_waits_for_it_and_nothing_else_moves_meanwhile():
    work = all_work({"a": 4})
    settled = settle({"m1": NOTHING, "m2": NOTHING}, work)
    held = settled.state.members["m2"].runs
    # For an equal balance alone, a task would be moved from m1 to a new member.
    left = {"m1": settled.state.members["m1"].runs, "m3": NOTHING, "m4": NOTHING, "m5": NOTHING}
    lost = one_round(left, work, settled.state, now_ms=1_000)
    assert lost.delay_ms == DELAY_MS
    assert all(not change.assigned and not change.revoked for change in lost.changes.values())
    (departed,) = lost.state.departed
    assert departed.work == held
    later = one_round(left, work, lost.state, now_ms=4_000)
    assert later.delay_ms == DELAY_MS - 3_000
    over = one_round(left, work, later.state, now_ms=11_000)
    assert NOTHING.union(*(change.assigned for change in over.changes.values())) == held
    assert (over.delay_ms, over.state.departed) == (0, ())


def test_members_that_return_together_get_their_previous_work():
    work = all_work({"a": 3, "b": 3})
    settled = settle({"m1": NOTHING, "m2": NOTHING, "m3": NOTHING}, work)
    runs = {name: member.runs for name, member in settled.state.members.items()}
    again = {"m1": Member("url-m1", runs["m1"]), "new1": Member("url-m3"), "new2": Member("url-m2")}
    back = assign_incrementally(again, work, settled.state, now_ms=0, max_delay_ms=DELAY_MS)
    assert (back.changes["new1"].assigned, back.changes["new2"].assigned) == (runs["m3"], runs["m2"])


def test_returning_work_takes_nothing_from_members_that_stayed():
    tasks = sorted(all_work({"a": 7}) - {"a"})
    state = AssignorState({"m1": Member("url-m1", frozenset(tasks[:3])), "m2": Member("url-m2", frozenset(tasks[3:]))})
    members = {"m1": frozenset(tasks[:3]), "m2": NOTHING, "m3": NOTHING}
    decision = one_round(members, frozenset(tasks), state)
    assert decision.changes["m1"].revoked == NOTHING


def test_a_worker_with_one_more_connector_gets_no_extra_task():
    decision = one_round({"m1": NOTHING, "m2": NOTHING}, all_work({"a": 1}), AssignorState())
    assert sorted(len(change.assigned) for change in decision.changes.values()) == [1, 1]


def test_a_lost_member_that_returns_with_a_new_id_gets_its_work_back_at_once():
    work = all_work({"a": 3, "b": 3, "c": 0})
    settled = settle({"m1": NOTHING, "m2": NOTHING, "m3": NOTHING}, work)
    runs = {name: member.runs for name, member in settled.state.members.items()}
    lost = one_round({"m1": runs["m1"], "m3": runs["m3"]}, work, settled.state)
    again = {
        "m1": Member("url-m1", runs["m1"]),
        "m3": Member("url-m3", runs["m3"]),
        "new": Member("url-m2"),
    }
    back = assign_incrementally(again, work, lost.state, now_ms=500, max_delay_ms=DELAY_MS)
    assert back.changes["new"].assigned == runs["m2"]
    assert not back.changes["m1"].assigned | back.changes["m3"].assigned
    assert back.delay_ms == 0


def test_new_connectors_start_while_a_rebalance_is_delayed():
    settled = settle({"m1": NOTHING, "m2": NOTHING}, all_work({"a": 2}))
    left = {"m1": settled.state.members["m1"].runs}
    decision = one_round(left, all_work({"a": 2, "new": 1}), settled.state)
    assert decision.changes["m1"].assigned == all_work({"new": 1})
    assert decision.delay_ms == DELAY_MS


def test_work_that_a_member_never_learnt_of_is_assigned_again_at_once():
    work = all_work({"a": 3})
    first = one_round({"m1": NOTHING, "m2": NOTHING}, work, AssignorState())
    again = one_round({"m1": first.changes["m1"].assigned, "m2": NOTHING}, work, first.state)
    assert again.changes["m2"].assigned == first.changes["m2"].assigned
    assert again.delay_ms == 0


def test_without_a_delay_lost_work_is_spread_at_once():
    work = all_work({"a": 4})
    settled = settle({"m1": NOTHING, "m2": NOTHING}, work)
    left = {"m1": Member("url-m1", settled.state.members["m1"].runs)}
    decision = assign_incrementally(left, work, settled.state, now_ms=0, max_delay_ms=0)
    assert decision.state.members["m1"].runs == work
    assert decision.delay_ms == 0


def settle(members: dict[str, Work], work: Work) -> AssignmentDecision:
    decision = one_round(members, work, AssignorState())
    while any(change.revoked for change in decision.changes.values()):
        members = after(members, decision)
        decision = one_round(members, work, decision.state)
    return decision


class SimulatedWorker:
    def __init__(self, url: str) -> None:
        self.url = url
        self.runs: set[Unit] = set()


class SimulatedGroup(RuleBasedStateMachine):
    """Workers that join, vanish, come back and miss assignments, and a leader that is replaced.

    A worker stops revoked work before it joins again, and a worker that is cut off has stopped before the group
    notices: group membership guarantees that. The assignor must never let two workers run the same work.
    """

    def __init__(self) -> None:
        super().__init__()
        self.work: Work = NOTHING
        self.state = AssignorState()
        self.now_ms = 0
        self.workers: dict[str, SimulatedWorker] = {}
        self.away: list[str] = []
        self.ids = 0
        self.decision: AssignmentDecision | None = None

    @initialize(task_counts=_task_counts)
    def begin(self, task_counts: dict[str, int]) -> None:
        self.work = all_work(task_counts)
        self.join("url-first")

    def join(self, url: str) -> None:
        self.ids += 1
        self.workers[f"m{self.ids}"] = SimulatedWorker(url)

    @precondition(lambda self: len(self.workers) < 5)
    @rule()
    def a_worker_joins(self) -> None:
        self.join(f"url-{self.ids}")

    @precondition(lambda self: len(self.workers) > 1)
    @rule(data=st.data())
    def a_worker_is_lost(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.workers)))
        self.away.append(self.workers.pop(name).url)

    @precondition(lambda self: self.away)
    @rule()
    def a_worker_comes_back(self) -> None:
        self.join(self.away.pop())

    @rule(task_counts=_task_counts)
    def connectors_change(self, task_counts: dict[str, int]) -> None:
        self.work = all_work(task_counts)

    @rule(passed_ms=st.integers(0, DELAY_MS))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def another_worker_leads(self) -> None:
        self.state = AssignorState()

    @rule(missing=st.sets(st.integers(0, 4)))
    def the_group_rebalances(self, missing: set[int]) -> None:
        """All members join; the members in `missing` do not get their assignments."""
        self.decision = self.decide()
        for number, (name, worker) in enumerate(self.workers.items()):
            if number not in missing:
                self.follow(worker, name)

    def decide(self) -> AssignmentDecision:
        members = {name: Member(worker.url, frozenset(worker.runs)) for name, worker in self.workers.items()}
        decision = assign_incrementally(members, self.work, self.state, now_ms=self.now_ms, max_delay_ms=DELAY_MS)
        self.state = decision.state
        return decision

    def follow(self, worker: SimulatedWorker, name: str) -> None:
        assert self.decision is not None
        change = self.decision.changes[name]
        # Other members may apply the decision later, so the work that this one starts must be free of all of them now.
        for other in self.workers.values():
            assert other is worker or not other.runs & change.assigned
        worker.runs -= change.revoked
        worker.runs |= change.assigned

    @invariant()
    def nothing_runs_twice(self) -> None:
        running = [unit for worker in self.workers.values() for unit in worker.runs]
        assert len(running) == len(set(running))

    @invariant()
    def only_lost_work_is_held_back(self) -> None:
        held = NOTHING.union(*(gone.work for gone in self.state.departed))
        assert not held & NOTHING.union(*(member.runs for member in self.state.members.values()))

    def teardown(self) -> None:
        """Without further changes, every group becomes stable."""
        if not self.workers:
            return
        self.now_ms += DELAY_MS
        for _ in range(3):
            self.the_group_rebalances(set())
            self.now_ms += DELAY_MS
        shares = {name: frozenset(worker.runs) for name, worker in self.workers.items()}
        assert NOTHING.union(*shares.values()) == self.work
        assert is_even(shares)


SimulatedGroup.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestSimulatedGroup = SimulatedGroup.TestCase
