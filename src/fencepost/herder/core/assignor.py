"""Who runs what: the leader's decision, as pure functions of what the members say they run.

Incremental cooperative assignment after KIP-415. Each round a member joins with what it runs and is told what to stop
and what to start; nothing is started anywhere before its former owner joined a round without it:

    round n      a member is told to stop what it has too much of, what two members run, and what was deleted
                 -> it stops that and joins again at once
    round n + 1  what nobody runs is given to the members that have room

What a member ran that is gone is held back for `max_delay_ms`, and given back if a worker with the same URL joins in the
meantime; no work moves for the sake of balance until then. A member that is still there and does not run what it was
given never learnt of it: that is given out again at once.

Connectors and tasks are balanced each for itself, so that members differ by one at most in either.
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
"""What is assigned: a connector, by its name, or a task."""

Work = frozenset[Unit]

NOTHING: Final[Work] = frozenset()


@dataclass(frozen=True, slots=True)
class Member:
    """A worker in the group, and what it runs."""

    url: str
    runs: Work = NOTHING


@dataclass(frozen=True, slots=True)
class Departed:
    """A worker that left the group, and what is held back for it until a time of the leader's clock."""

    url: str
    work: Work
    until_ms: int


@dataclass(frozen=True, slots=True)
class AssignorState:
    """What a leader remembers from round to round: the members by their ids, as they are once all did as told."""

    members: Mapping[str, Member] = field(default_factory=dict)
    departed: tuple[Departed, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What one member is told to stop and to start."""

    revoked: Work = NOTHING
    assigned: Work = NOTHING


@dataclass(frozen=True, slots=True)
class AssignmentDecision:
    """The changes by member id, after how many milliseconds to join again (0: not needed), and the leader's memory."""

    changes: Mapping[str, Change]
    delay_ms: int
    state: AssignorState


def all_work(task_counts: Mapping[str, int]) -> Work:
    """Return the connectors and tasks that `task_counts`, from a connector's name to its number of tasks, makes."""
    tasks = (ConnectorTaskId(connector, task) for connector, count in task_counts.items() for task in range(count))
    return frozenset(chain(task_counts, tasks))


def assign_eagerly(members: Iterable[str], configured: Work) -> Mapping[str, Work]:
    """Deal all work out in turn, to members that run nothing. Returns the work by member id."""
    dealt: dict[str, set[Unit]] = {member: set() for member in sorted(members)}
    for member, unit in zip(cycle(dealt), chain(*map(sorted, _by_kind(configured))), strict=False):
        dealt[member].add(unit)
    return {member: frozenset(work) for member, work in dealt.items()}


def assign_incrementally(
    members: Mapping[str, Member], configured: Work, state: AssignorState, *, now_ms: int, max_delay_ms: int
) -> AssignmentDecision:
    """Decide one round. `members` is not empty; times are of any clock that never goes back."""
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
    """Those for whom work is still held back."""
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
    """Ids of members that were not in the last round, by URL: a worker that comes back has another id."""
    return {members[name].url: name for name in sorted(members.keys() - state.members.keys())}


def _homes(members: Mapping[str, Member], available: Work, state: AssignorState) -> Mapping[Unit, str]:
    """Where available work was given before: to a member that never learnt of it, or to one that has come back."""
    back = _newcomers(members, state)
    before = chain(
        ((one.work, back.get(one.url)) for one in state.departed),
        ((member.runs, name if name in members else back.get(member.url)) for name, member in state.members.items()),
    )
    return {unit: name for work, name in before if name is not None for unit in work & available}


def _quotas(
    kept: Mapping[str, Work], homes: Mapping[Unit, str], to_place: Work, total: int, loads: Mapping[str, int]
) -> dict[str, int]:
    """How many units of one kind each member shall have, so that the least is revoked, and then the most goes home."""
    floor, extra = divmod(total, len(kept))
    going_home = Counter(homes[unit] for unit in to_place if unit in homes)

    def claim(name: str) -> tuple[bool, int, int, str]:
        return len(kept[name]) <= floor, -len(kept[name]) - going_home[name], loads[name], name

    more = sorted(kept, key=claim)[:extra]
    return {name: floor + (name in more) for name in kept}


def _fill(
    kept: Mapping[str, Work], to_place: Work, quotas: Mapping[str, int], homes: Mapping[Unit, str]
) -> dict[str, Work]:
    """Add units of one kind to what members keep: home where there is room, else to who has the least."""
    shares: dict[str, set[Unit]] = {name: set(work) for name, work in kept.items()}
    homeless = []
    for unit in sorted(to_place):
        home = homes.get(unit)
        if home is not None and len(shares[home]) < quotas[home]:
            shares[home].add(unit)
        else:
            homeless.append(unit)
    # Whoever has as much as it shall have is not in the heap; the quotas leave room for all that is to be placed.
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
