"""The leader's part in a rebalance: connects the pure assignor with the protocol's types and the leader's state."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import (
    NOTHING,
    AssignorState,
    Member,
    Unit,
    Work,
    all_work,
    assign_eagerly,
    assign_incrementally,
)
from fencepost.kafka.group.protocol import (
    UNKNOWN_FILES,
    Assignment,
    AssignmentError,
    ConnectProtocol,
    Election,
    WorkerFiles,
    WorkerMetadata,
)

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConfiguredWork:
    """The configured work: each connector's number of tasks, and the offset up to which the config topic was read."""

    config_offset: int
    task_counts: Mapping[str, int]


class LeaderAssignor:
    """Computes the assignments for each `Election` of this worker. Not thread-safe.

    The group member calls this object when it is elected as the leader.
    """

    def __init__(
        self,
        configured: Callable[[], ConfiguredWork],
        *,
        max_delay_ms: int,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        """`configured` is called in each round, on the group member's thread.

        `max_delay_ms` is `scheduled.rebalance.max.delay.ms`.
        """
        self._configured = configured
        self._max_delay_ms = max_delay_ms
        self._clock_ms = clock_ms
        self._state: AssignorState | None = None
        # This worker's assignment under the previous leader. The assignment is needed in this worker's first successful
        # round as leader.
        self._inherited: Assignment | None = None
        self._owner_urls: Mapping[Unit, str] = {}

    def __call__(self, election: Election) -> Mapping[str, Assignment]:
        """Return the assignment of each member by member id."""
        if not election.led_before:
            self._state, self._inherited = None, election.held
        configured = self._configured()
        # Offsets of members with another config topic cannot be compared with this worker's offset.
        own = election.members[election.leader].topics.config
        known = max(member.config_offset for member in election.members.values() if member.topics.config in (own, ""))
        if configured.config_offset < known:
            _log.info("The config topic was read to offset %d here, to %d elsewhere", configured.config_offset, known)
            return _to_all(election, AssignmentError.CONFIG_MISMATCH, known)
        if election.protocol is ConnectProtocol.EAGER:
            return self._eagerly(election, configured)
        return self._incrementally(election, configured)

    def owner_url(self, unit: Unit) -> str | None:
        """Return the URL of the worker that this leader last assigned a connector or task to. Thread-safe."""
        return self._owner_urls.get(unit)

    def _eagerly(self, election: Election, configured: ConfiguredWork) -> Mapping[str, Assignment]:
        self._state = AssignorState()  # no member runs anything during a join
        if election.held is not None:
            # The group was cooperative before, so members did not stop their work for this join. An empty assignment
            # makes all members join again. Under the eager protocol, they stop their work before they join.
            return _to_all(election, AssignmentError.CONFIG_MISMATCH, configured.config_offset)
        shares = assign_eagerly(election.members, all_work(configured.task_counts))
        self._remember_owners(election, shares)
        return {name: _assignment(election, configured.config_offset, share) for name, share in shares.items()}

    def _incrementally(self, election: Election, configured: ConfiguredWork) -> Mapping[str, Assignment]:
        members = {name: Member(member.url, _runs(member)) for name, member in election.members.items()}
        work = all_work(configured.task_counts)
        decision = assign_incrementally(
            members,
            work,
            self._state or _inherited(self._inherited, members, work),
            now_ms=self._clock_ms(),
            max_delay_ms=self._max_delay_ms,
        )
        self._state = decision.state
        self._remember_owners(election, {name: member.runs for name, member in decision.state.members.items()})
        return {
            name: _assignment(
                election, configured.config_offset, change.assigned, change.revoked, delay_ms=decision.delay_ms
            )
            for name, change in decision.changes.items()
        }

    def _remember_owners(self, election: Election, shares: Mapping[str, Work]) -> None:
        self._owner_urls = {unit: election.members[name].url for name, share in shares.items() for unit in share}


def _runs(member: WorkerMetadata) -> Work:
    if member.assignment is None:
        return NOTHING
    return frozenset(member.assignment.connectors) | frozenset(member.assignment.tasks)


def _inherited(former: Assignment | None, members: Mapping[str, Member], work: Work) -> AssignorState:
    """Return the initial state of a new leader.

    If the previous leader has left, it counts as the owner of all unowned work.
    """
    if former is None or not former.leader or former.leader in members:
        return AssignorState()
    running = NOTHING.union(*(member.runs for member in members.values()))
    known = {name: member for name, member in members.items() if member.runs}
    return AssignorState({**known, former.leader: Member(former.leader_url, work - running)})


def _to_all(election: Election, error: AssignmentError, config_offset: int) -> Mapping[str, Assignment]:
    return {name: _assignment(election, config_offset, error=error) for name in election.members}


def _assignment(
    election: Election,
    config_offset: int,
    assigned: Work = NOTHING,
    revoked: Work = NOTHING,
    *,
    delay_ms: int = 0,
    error: AssignmentError = AssignmentError.NONE,
) -> Assignment:
    connectors, tasks = _split(assigned)
    revoked_connectors, revoked_tasks = _split(revoked)
    leader = election.members[election.leader]
    return Assignment(
        error=error,
        leader=election.leader,
        leader_url=leader.url,
        config_offset=config_offset,
        connectors=connectors,
        tasks=tasks,
        revoked_connectors=revoked_connectors,
        revoked_tasks=revoked_tasks,
        delay_ms=delay_ms,
        supports=tuple(sorted((member.url, member.support) for member in election.members.values())),
        leader_topics=leader.topics,
        other_topics=tuple(
            sorted(
                (member.url, member.topics) for member in election.members.values() if member.topics != leader.topics
            )
        ),
        files=_files(election),
    )


def _files(election: Election) -> tuple[tuple[str, WorkerFiles], ...]:
    """Return the directories that connectors may read on each member, if these differ between members."""
    found = {(member.url, member.files) for member in election.members.values() if member.files != UNKNOWN_FILES}
    return tuple(sorted(found, key=lambda member: member[0])) if len({files for _, files in found}) > 1 else ()


def _split(work: Work) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
    connectors = tuple(sorted(unit for unit in work if isinstance(unit, str)))
    return connectors, tuple(sorted(unit for unit in work if isinstance(unit, ConnectorTaskId)))
