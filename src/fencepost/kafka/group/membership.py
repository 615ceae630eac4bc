"""The values that describe a membership in a group of workers, and its listener and observer.

A member goes through these states, and may be closed in any of them:

                        joined                  joined again
    CONNECTING ────────────────────> MEMBER ───────────────────> MEMBER      on_revoked, then on_assigned
        ^                             │ │
        └── silent for a session, ────┘ └── a fatal error ────────> FAILED        on_lost, then on_failed
            or expelled: on_lost

A member whose work was revoked joins again automatically when that work has stopped. A member also joins again when the
delay in an assignment is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, Protocol

from fencepost.config.ids import ConnectorTaskId
from fencepost.kafka.group.protocol import (
    UNKNOWN_FILES,
    UNKNOWN_TOPICS,
    Assignment,
    ConnectProtocol,
    WorkerFiles,
    WorkerTopics,
)


class MemberState(StrEnum):
    """The state of a member; see the module's diagram."""

    CONNECTING = "CONNECTING"
    MEMBER = "MEMBER"
    FAILED = "FAILED"
    CLOSED = "CLOSED"


TRANSITIONS: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    MemberState.CONNECTING: frozenset({MemberState.MEMBER, MemberState.FAILED, MemberState.CLOSED}),
    MemberState.MEMBER: frozenset(MemberState),
    MemberState.FAILED: frozenset({MemberState.CLOSED}),
    MemberState.CLOSED: frozenset({MemberState.CLOSED}),
}
"""The states that may follow each state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings with which a member joins. Other workers reach this worker at `url`. Times are in milliseconds.

    `support` is the worker's `exactly.once.source.support`, which the leader sends to all members. `topics` are its
    internal topics, which the leader compares with its own ones. `files` are the files that its connectors may read,
    which the leader sends to all members.
    """

    group_id: str
    url: str
    support: str = ""
    topics: WorkerTopics = UNKNOWN_TOPICS
    files: WorkerFiles = UNKNOWN_FILES
    protocol: ConnectProtocol = ConnectProtocol.SESSIONED
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 500
    rebalance_timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """This worker's membership in one generation.

    `assignment` is all work that this worker must run from now on, without work that was just revoked. If it `failed`,
    read the config topic to its end and call `rejoin`. Running work keeps running meanwhile, except in `default`.
    """

    generation: int
    member_id: str
    protocol: ConnectProtocol
    assignment: Assignment

    @property
    def leader(self) -> bool:
        """Whether this worker leads the group."""
        return self.assignment.leader == self.member_id


class GroupRequest(Enum):
    """The recurring requests of a member to the group's coordinator."""

    JOIN = auto()
    SYNC = auto()
    HEARTBEAT = auto()


class GroupObserver(Protocol):
    """Measures a membership. Called on the member's thread; must return at once."""

    def request_answered(self, request: GroupRequest, seconds: float) -> None:
        """The coordinator took `seconds` to answer."""

    def rebalance_began(self) -> None:
        """The member begins to join. If an attempt fails, this is called again before `rebalance_completed`."""

    def rebalance_failed(self) -> None:
        """An attempt to join failed. The member tries again."""

    def rebalance_completed(self) -> None:
        """The member has applied its assignment."""


class GroupListener(Protocol):
    """Is notified of assignments, on the asyncio loop.

    The member waits for `on_revoked` and `on_lost` before it calls anything else, but at most the rebalance time-out.
    """

    async def on_revoked(self, connectors: tuple[str, ...], tasks: tuple[ConnectorTaskId, ...]) -> None:
        """Stop these connectors and tasks. Return when they have stopped, because others may start them then."""

    def on_assigned(self, membership: Membership) -> None:
        """Run the assignment as soon as the config topic is read up to its offset."""

    async def on_lost(self, reason: str) -> None:
        """Stop everything, because others may run it. Return when all has stopped.

        After this call, the worker does not lead any more.
        """

    def on_failed(self, error: Exception) -> None:
        """The membership has ended for good: call `close`. Nothing runs any more."""
