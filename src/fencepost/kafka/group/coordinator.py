"""kafka-python's group coordinator client, used for a member of a group of Connect workers.

kafka.coordinator is internal to kafka-python; only this module and `member` use it. tests/broker/kafka/test_group_member.py
tests the internals that are used here. Everything runs on the thread that drives kafka-python's event loop.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.heartbeat import Heartbeat
from kafka.errors import KafkaError, MemberIdRequiredError
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer import UNKNOWN_MEMBER_ID

from fencepost.kafka.group.connections import ConnectionManager
from fencepost.kafka.group.membership import GroupObserver, GroupRequest
from fencepost.kafka.group.protocol import PROTOCOL_TYPE
from fencepost.kafka.precedence import HEARTBEAT

# The pause before a generation's first heartbeat. Moving work to another worker takes two generations, and a member
# that revoked nothing in the first generation learns about the second one only from a heartbeat.
_FIRST_HEARTBEAT_S: Final = 0.1


class Rebalancing(Protocol):
    """The actions of a member during a rebalance."""

    def protocols(self) -> Iterable[tuple[str, bytes]]:
        """Return the protocols that this member offers, the best first, with its metadata for each."""

    async def before_joining(self) -> None:
        """Stop connectors and tasks that must not run during the join. Heartbeats continue during this call."""

    async def before_request(self) -> None:
        """Prepare for a JoinGroup request. This is called before each request, also before repeated ones."""

    def assign(self, leader: str, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """As the leader, compute the assignment of each member from the metadata of all members."""

    async def joined(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        """Apply the assignment of a new generation. Heartbeats continue during this call."""

    def expelled(self) -> None:
        """Record that the coordinator does not consider this worker a member any more."""

    def wake(self) -> None:
        """Wake the member, because its state has changed."""


class MemberHeartbeat(Heartbeat):  # type: ignore[misc]  # kafka-python ships no type information
    """Schedules heartbeats. The pauses are short when a generation begins, and then double up to the interval.

    `confirmed` is the time at which the last answered heartbeat was sent. The coordinator's session time-out began at
    that time or later. While a heartbeat is due, the other threads of the process wait (`kafka.precedence`).
    """

    confirmed: float | None = None

    def time_to_next_heartbeat(self) -> float:
        """Return the seconds until the next heartbeat."""
        last = max(self.last_send, self.last_reset)
        early: float = last + max(_FIRST_HEARTBEAT_S, last - self.last_reset) - time.monotonic()
        due: float = super().time_to_next_heartbeat()
        return min(due, max(0.0, early))

    def received_heartbeat(self) -> None:
        """Record that the last heartbeat was answered."""
        super().received_heartbeat()
        self.confirmed = self.last_send
        self._announce_next()

    def reset_timeouts(self) -> None:
        """Begin a generation."""
        super().reset_timeouts()
        self._announce_next()

    def fail_heartbeat(self) -> None:
        """Record that a heartbeat failed. Other threads need not wait for the next one, which may fail as well."""
        super().fail_heartbeat()
        HEARTBEAT.announce(None)

    def _announce_next(self) -> None:
        HEARTBEAT.announce(time.monotonic() + self.time_to_next_heartbeat())


class _Sensor:
    """Passes kafka-python's latencies, in milliseconds, on to an observer."""

    def __init__(self, observer: GroupObserver, request: GroupRequest) -> None:
        self._observer = observer
        self._request = request

    def record(self, milliseconds: float) -> None:
        self._observer.request_answered(self._request, milliseconds / 1000)


class _Sensors:
    """Replaces kafka-python's GroupCoordinatorMetrics."""

    def __init__(self, observer: GroupObserver) -> None:
        self.join_latency = _Sensor(observer, GroupRequest.JOIN)
        self.sync_latency = _Sensor(observer, GroupRequest.SYNC)
        self.heartbeat_latency = _Sensor(observer, GroupRequest.HEARTBEAT)


class ConnectCoordinator(BaseCoordinator):  # type: ignore[misc]  # kafka-python ships no type information
    """One member's side of the group protocol. Times are in seconds of the monotonic clock."""

    def __init__(
        self, manager: ConnectionManager, rebalancing: Rebalancing, observer: GroupObserver, **settings: Any
    ) -> None:
        super().__init__(KafkaNetClient(net=manager._net, manager=manager), **settings)  # noqa: SLF001 - as its base does
        self.heartbeat = MemberHeartbeat(**self.config)
        # BaseCoordinator reports latencies to `_sensors`. Without a metrics registry, its constructor leaves this None.
        self._sensors = _Sensors(observer)
        self._rebalancing = rebalancing
        self._observer = observer
        self._joined_at: float | None = None
        self._join_sent_at: float | None = None

    @property
    def heard_at(self) -> float | None:
        """When the coordinator last considered this member alive, as far as known; None if it never did."""
        known = [moment for moment in (self._joined_at, self.heartbeat.confirmed) if moment is not None]
        return max(known, default=None)

    @property
    def expires_at(self) -> float | None:
        """When the coordinator may expel this member if no heartbeat arrives before; None if this never was a member.

        While a JoinGroup request waits at the coordinator, no heartbeats are needed, and the session does not expire.
        """
        heard_at = self.heard_at
        ends: list[float] = []
        if heard_at is not None:
            ends.append(heard_at + self.config["session_timeout_ms"] / 1000)
        if self._join_sent_at is not None:
            ends.append(self._join_sent_at + self.config["max_poll_interval_ms"] / 1000)
        return max(ends, default=None)

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave this member; '' before that."""
        name: str = self._generation.member_id
        return name

    def drop(self, reason: str) -> None:
        """Disconnect from a coordinator that does not answer. Join again when a coordinator is found."""
        node = self.coordinator_id
        self.coordinator_dead(reason)
        if node is not None:
            self._manager.close(node)
        # The member id is kept, because a coordinator that still knows it recognises the member.
        self.reset_generation(self.member_id)

    def still_alive(self) -> None:
        """Report that this member is not stuck.

        A member that does not report this during the rebalance time-out leaves the group.
        """
        self.heartbeat.poll()

    def stop_heartbeats(self) -> None:
        """End the heartbeats for good."""
        HEARTBEAT.announce(None)
        self._close_heartbeat()

    # -- methods that BaseCoordinator requires of its subclasses ---------------------------------------------------

    def protocol_type(self) -> str:
        """Return the group type of Connect's workers."""
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Return the protocols and metadata for JoinGroup."""
        return list(self._rebalancing.protocols())

    async def _on_join_prepare_async(self, *_: Any, **__: Any) -> None:
        self._observer.rebalance_began()
        await self._rebalancing.before_joining()

    def _perform_assignment(self, leader_id: str, protocol: str, members: list[Any]) -> dict[str, bytes]:
        metadata = {member.member_id: bytes(member.metadata) for member in members}
        return dict(self._rebalancing.assign(leader_id, protocol, metadata))

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        self._joined_at = time.monotonic()
        await self._rebalancing.joined(generation, member_id, protocol, bytes(member_assignment_bytes))
        self._observer.rebalance_completed()

    # -- hooks into BaseCoordinator -------------------------------------------------------------------

    async def _do_join_and_sync_async(self) -> bytes:
        await self._rebalancing.before_request()
        self._join_sent_at = time.monotonic()
        try:
            assignment: bytes = await super()._do_join_and_sync_async()
        except MemberIdRequiredError:
            # This is not a failure: the coordinator answers a new member's first JoinGroup with a member id.
            raise
        except KafkaError:
            self._observer.rebalance_failed()
            raise
        finally:
            self._join_sent_at = None
        self._joined_at = time.monotonic()
        return assignment

    def request_rejoin(self) -> None:
        """Join again as soon as possible: the group rebalances, or this member requests it."""
        super().request_rejoin()
        self._rebalancing.wake()

    def _disable_heartbeat(self) -> None:
        super()._disable_heartbeat()
        HEARTBEAT.announce(None)

    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        """Reset the generation. Without a `member_id`, reset the membership as well."""
        super().reset_generation(member_id)
        if member_id == UNKNOWN_MEMBER_ID:
            self._rebalancing.expelled()
        self._rebalancing.wake()
