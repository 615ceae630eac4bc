"""The leader's assignment decision, as pure functions of the work that the members report.

Incremental cooperative assignment after KIP-415. In each round, every member reports its current work, and gets the
work to stop and the work to start. A connector or task is started only after its former owner has joined a round
without it:

    round n      excess work, work that two members run, and deleted work is revoked
                 -> the member stops it and joins again at once
    round n + 1  unowned work is assigned to the members with the least work

The work of a lost member is not assigned for `max_delay_ms`. It is returned if a worker with the same URL joins in the
meantime; until then no work is moved for balance. If a remaining member does not run its assigned work, it never learnt
of the assignment: that work is assigned again at once.

Connectors and tasks are balanced separately, so that members differ by at most one in each.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, cycle
from typing import Final

from fencepost.config.ids import ConnectorTaskId

Unit = str | ConnectorTaskId
"""A unit of assignment: a connector, by its name, or a task."""

Work = frozenset[Unit]

NOTHING: Final[Work] = frozenset()


@dataclass(frozen=True, slots=True)
class Member:
    """A worker in the group, and its current work."""

    url: str
    runs: Work = NOTHING


@dataclass(frozen=True, slots=True)
class Departed:
    """A worker that left the group. Its work is kept for its return until `until_ms`, on the leader's clock."""

    url: str
    work: Work
    until_ms: int


@dataclass(frozen=True, slots=True)
class AssignorState:
    """The leader's state between rounds.

    `members` have, by id, the work that they run once they have applied its decision.
    """

    members: Mapping[str, Member] = field(default_factory=dict)
    departed: tuple[Departed, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """The work that one member must stop and start."""

    revoked: Work
    assigned: Work


@dataclass(frozen=True, slots=True)
class AssignmentDecision:
    """The changes by member id, the delay in milliseconds until the next join (0: none), and the leader's state."""

    changes: Mapping[str, Change]
    delay_ms: int
    state: AssignorState


def all_work(task_counts: Mapping[str, int]) -> Work:
    """Return all connectors and tasks. `task_counts` has the number of tasks of each connector, by name."""
    tasks = (ConnectorTaskId(connector, task) for connector, count in task_counts.items() for task in range(count))
    return frozenset(chain(task_counts, tasks))


def assign_eagerly(members: Iterable[str], configured: Work) -> Mapping[str, Work]:
    """Assign all work round-robin; no member may run anything yet. Returns the work by member id."""
    dealt: dict[str, set[Unit]] = {member: set() for member in sorted(members)}
    for member, unit in zip(cycle(dealt), chain(*map(sorted, _by_kind(configured))), strict=False):
        dealt[member].add(unit)
    return {member: frozenset(work) for member, work in dealt.items()}


def assign_incrementally(
    members: Mapping[str, Member], configured: Work, state: AssignorState, *, now_ms: int, max_delay_ms: int
) -> AssignmentDecision:
    """Decide one round. `members` is not empty. Times are read from a monotonic clock."""
    owners = Counter(unit for member in members.values() for unit in member.runs)
    contested = frozenset(unit for unit, count in owners.items() if count > 1)
    kept = {name: (member.runs & configured) - contested for name, member in members.items()}
    free = configured - owners.keys()
    departed = _departed(members, free, state, now_ms, max_delay_ms)
    available = free.difference(*(gone.work for gone in departed))
    homes = _homes(members, available, state)
    loads = dict.fromkeys(members, 0)
    final: dict[str, Work] = dict.fromkeys(members, NOTHING)
    for of_kind, to_place, all_of_kind in zip(_kinds_of(kept), _by_kind(available), _by_kind(configured), strict=True):
        quotas = dict.fromkeys(members, len(all_of_kind))
        if not departed:
            quotas = _quotas(of_kind, homes, to_place, len(all_of_kind), loads)
        shares = _fill({name: _first(work, quotas[name]) for name, work in of_kind.items()}, to_place, quotas, homes)
        final = {name: final[name] | share for name, share in shares.items()}
        loads = {name: loads[name] + quotas[name] for name in members}
    return AssignmentDecision(
        changes={
            name: Change(revoked=member.runs - final[name], assigned=final[name] - member.runs)
            for name, member in members.items()
        },
        delay_ms=max(0, min((gone.until_ms for gone in departed), default=now_ms) - now_ms),
        state=AssignorState(
            members={name: Member(member.url, final[name]) for name, member in members.items()}, departed=departed
        ),
    )


def _departed(
    members: Mapping[str, Member], free: Work, state: AssignorState, now_ms: int, max_delay_ms: int
) -> tuple[Departed, ...]:
    """Return the departed members whose work is still kept for their return."""
    back = _newcomers(members, state).keys()
    gone = (
        Departed(member.url, member.runs, now_ms + max_delay_ms)
        for name, member in state.members.items()
        if name not in members
    )
    return tuple(
        Departed(one.url, one.work & free, one.until_ms)
        for one in (*state.departed, *gone)
        if one.until_ms > now_ms and one.url not in back and one.work & free
    )


def _newcomers(members: Mapping[str, Member], state: AssignorState) -> Mapping[str, str]:
    """Return the ids, by URL, of members that were not in the last round. A returning worker has a new id."""
    return {members[name].url: name for name in sorted(members.keys() - state.members.keys())}


def _homes(members: Mapping[str, Member], available: Work, state: AssignorState) -> Mapping[Unit, str]:
    """Return the previous owner of each available unit, if the owner is a member now.

    The owner has returned to the group, or has never learnt that the unit was assigned to it.
    """
    back = _newcomers(members, state)
    before = chain(
        ((one.work, back.get(one.url)) for one in state.departed),
        ((member.runs, name if name in members else back.get(member.url)) for name, member in state.members.items()),
    )
    return {unit: name for work, name in before if name is not None for unit in work & available}


def _quotas(
    kept: Mapping[str, Work], homes: Mapping[Unit, str], to_place: Work, total: int, loads: Mapping[str, int]
) -> dict[str, int]:
    """Return the number of units of one kind for each member.

    The numbers are chosen so that as few units as possible are revoked, and then so that as many as possible return to
    their previous owners.
    """
    floor, extra = divmod(total, len(kept))
    going_home = Counter(homes[unit] for unit in to_place if unit in homes)

    def claim(name: str) -> tuple[bool, int, int, str]:
        return len(kept[name]) <= floor, -len(kept[name]) - going_home[name], loads[name], name

    more = frozenset(sorted(kept, key=claim)[:extra])
    return {name: floor + (name in more) for name in kept}


def _fill(
    kept: Mapping[str, Work], to_place: Work, quotas: Mapping[str, int], homes: Mapping[Unit, str]
) -> dict[str, Work]:
    """Assign units of one kind: to the previous owner if its quota allows, else to the least loaded member."""
    shares: dict[str, set[Unit]] = {name: set(work) for name, work in kept.items()}
    homeless = []
    for unit in sorted(to_place):
        home = homes.get(unit)
        if home is not None and len(shares[home]) < quotas[home]:
            shares[home].add(unit)
        else:
            homeless.append(unit)
    # Members that have reached their quota are not in the heap; the quotas have room for all units.
    room = [(len(share), name) for name, share in shares.items() if len(share) < quotas[name]]
    heapq.heapify(room)
    for unit in homeless:
        count, name = heapq.heappop(room)
        shares[name].add(unit)
        if count + 1 < quotas[name]:
            heapq.heappush(room, (count + 1, name))
    return {name: frozenset(share) for name, share in shares.items()}


def _first(work: Work, count: int) -> Work:
    return frozenset(sorted(work)[:count]) if len(work) > count else work


def _by_kind(work: Work) -> tuple[Work, Work]:
    connectors = frozenset(unit for unit in work if isinstance(unit, str))
    return connectors, work - connectors


def _kinds_of(work: Mapping[str, Work]) -> tuple[dict[str, Work], dict[str, Work]]:
    split = {name: _by_kind(of_member) for name, of_member in work.items()}
    return {name: kinds[0] for name, kinds in split.items()}, {name: kinds[1] for name, kinds in split.items()}
