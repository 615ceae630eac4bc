"""A worker's membership in the group of workers that share its `group.id`.

A member has one thread, which runs kafka-python's event loop and everything on it. It notifies a listener, on an
asyncio loop, of its assignments. The states are in `membership`.

kafka-python considers a disconnected member stable for the whole request time-out. This module itself tracks when the
coordinator last answered: work stops as soon as it may have been assigned to others.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import kafka.errors as client_errors
from kafka.net.selector import NetworkSelector
from kafka.net.wakeup_notifier import WakeupNotifier

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Backoff, Deadline
from fencepost.kafka.errors import AuthorizationError, GroupProtocolError
from fencepost.kafka.group.asyncio_bridge import ListenerLoop
from fencepost.kafka.group.codec import decode_assignment, decode_metadata, encode_assignment, encode_metadata
from fencepost.kafka.group.connections import BAD_CREDENTIALS, ConnectionManager, TlsError, translated
from fencepost.kafka.group.coordinator import ConnectCoordinator
from fencepost.kafka.group.membership import (
    TRANSITIONS,
    GroupListener,
    GroupObserver,
    GroupSettings,
    Membership,
    MemberState,
)
from fencepost.kafka.group.pace import RebalancePace
from fencepost.kafka.group.protocol import UNKNOWN_TOPICS, Assignment, ConnectProtocol, Election, WorkerMetadata

_log: Final = logging.getLogger(__name__)

# The longest time until the member reacts to `rejoin` and `close` while it waits for an answer.
_TICK_MS: Final = 200
_LEAVE_TIMEOUT_MS: Final = 3_000
_UNREADABLE_PAUSE_S: Final = 5.0
"""The pause before a member joins again if its leader sent data that cannot be read."""

_FATAL_ERRORS: Final = (
    *BAD_CREDENTIALS,
    TlsError,
    client_errors.GroupAuthorizationFailedError,
    client_errors.InconsistentGroupProtocolError,
    client_errors.InvalidGroupIdError,
    client_errors.InvalidSessionTimeoutError,
    client_errors.KafkaConfigurationError,
    client_errors.IncompatibleBrokerVersion,
)
"""Fatal errors. All other errors are retriable."""


class GroupMember:
    """One worker in its group. All methods may be called from any thread.

    `config_offset` (see `WorkerMetadata`), and `assign`, which computes the assignments as the leader, are called on
    the member's thread and must return quickly. An exception of `assign` ends the membership.
    """

    def __init__(
        self,
        config: ClientConfig,
        settings: GroupSettings,
        *,
        config_offset: Callable[[], int],
        assign: Callable[[Election], Mapping[str, Assignment]],
        listener: GroupListener,
        observer: GroupObserver,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._config = config
        self._settings = settings
        self._config_offset = config_offset
        self._assign = assign
        self._listener = listener
        self._observer = observer
        self._net = NetworkSelector(**config.kafka_python())
        self._manager = ConnectionManager(self._net, **config.kafka_python())
        self._wakeup = WakeupNotifier(self._net)
        self._listener_loop = ListenerLoop(loop, self._net, self._manager)
        self._coordinator: ConnectCoordinator | None = None
        self._thread = threading.Thread(target=self._run, name=f"fencepost-group-{settings.group_id}", daemon=True)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._state = MemberState.CONNECTING
        self._protocol = settings.protocol
        self._held: Assignment | None = None
        self._expelled = False
        self._rejoin_at: float | None = None
        self._unknown_since: float | None = time.monotonic()
        self._rejoin_asked = False
        self._pace = RebalancePace()
        self._closing = False

    @property
    def state(self) -> MemberState:
        """The state of this member."""
        return self._state

    @property
    def coordinator_unknown_for(self) -> float:
        """For how many seconds no coordinator has been known; 0.0 if one is known."""
        since = self._unknown_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def rebalancing(self) -> bool:
        """Whether this member is joining the group, or will do so next."""
        coordinator = self._coordinator
        return self._rejoin_asked or coordinator is None or bool(coordinator.need_rejoin())

    def start(self) -> None:
        """Join the group, and keep trying while no broker answers."""
        self._thread.start()

    def rejoin(self) -> None:
        """Join again, as soon as the cost of the last rebalance allows it.

        Joining again rebalances the group if this worker leads it, or if its metadata has changed: its `config_offset`
        or its work.
        """
        self._rejoin_asked = True
        self._wake()

    async def close(self) -> None:
        """Leave the group, and release everything.

        The caller must have stopped all work; nothing is called after this.
        """
        self._closing = True
        self._wake()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)
        else:
            self._free()
        self._become(MemberState.CLOSED)

    # -- the member's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._net.run(self._live)
        finally:
            self._free()

    def _free(self) -> None:
        self._manager.close()
        self._net.close()

    async def _live(self) -> None:
        try:
            while not self._closing:
                await self._step()
            await self._depart("the worker stops")
        except Exception as error:  # noqa: BLE001 - whatever it is, this worker is not to pass for a member
            await self._fail(error)
        if self._coordinator is not None:
            self._coordinator.stop_heartbeats()

    async def _step(self) -> None:
        """Run one iteration of the member's loop. If nothing is to be done, sleep."""
        if self._rejoin_is_due():
            self._ask_to_join()
        active = await self._try_to_be_active()
        await self._lose_if_silent()
        self._watch_coordinator()
        if active:
            await self._rest()

    async def _try_to_be_active(self) -> bool:
        try:
            coordinator = await self._connected()
            active = bool(await coordinator.ensure_active_group_async(timeout_ms=_TICK_MS))
            coordinator.poll_heartbeat()
        except client_errors.KafkaError as error:
            if isinstance(error, _FATAL_ERRORS):
                raise
            pause_s = self._backoff.next_s()
            _log.debug("Group %s: trying again in %.1f s after %r", self._settings.group_id, pause_s, error)
            await self._wakeup(pause_s)
            return False
        self._backoff.reset()
        return active

    async def _connected(self) -> ConnectCoordinator:
        if self._coordinator is None:
            if not self._manager.bootstrapped:
                bootstrap = self._manager.bootstrap_async(self._config.request_timeout_ms)
                await self._manager.wait_for(bootstrap, _TICK_MS)
            self._coordinator = ConnectCoordinator(
                self._manager,
                self,
                self._observer,
                group_id=self._settings.group_id,
                session_timeout_ms=self._settings.session_timeout_ms,
                heartbeat_interval_ms=self._settings.heartbeat_interval_ms,
                max_poll_interval_ms=self._settings.rebalance_timeout_ms,
                request_timeout_ms=self._config.request_timeout_ms,
                retry_backoff_ms=self._config.retry_backoff_ms,
                api_version=self._manager.broker_version,
            )
        return self._coordinator

    async def _rest(self) -> None:
        pause_s = self._settings.heartbeat_interval_ms / 1000
        expires_at = self._coordinator.expires_at if self._coordinator is not None else None
        for moment in (self._rejoin_at, self._pace.due_at if self._rejoin_asked else None, expires_at):
            if moment is not None:
                pause_s = min(pause_s, max(0.0, moment - time.monotonic()))
        await self._wakeup(pause_s)

    def _rejoin_is_due(self) -> bool:
        now = time.monotonic()
        changed = self._rejoin_asked and now >= self._pace.due_at
        return changed or (self._rejoin_at is not None and now >= self._rejoin_at)

    def _ask_to_join(self) -> None:
        self._rejoin_asked, self._rejoin_at = False, None
        if self._coordinator is not None:
            self._coordinator.request_rejoin()

    def _watch_coordinator(self) -> None:
        coordinator = self._coordinator
        if coordinator is not None and coordinator.coordinator_id is not None:
            self._unknown_since = None
            return
        # The search for a coordinator may take long. Its time does not count as part of a rebalance.
        self._pace.interrupted(time.thread_time())
        if self._unknown_since is None:
            self._unknown_since = time.monotonic()

    # -- the end of a membership --------------------------------------------------------------------------------

    def _is_silent(self) -> bool:
        """Whether the coordinator may have assigned this member's work to others."""
        if self._state is not MemberState.MEMBER or self._coordinator is None:
            return False
        expires_at = self._coordinator.expires_at
        return expires_at is None or time.monotonic() >= expires_at

    async def _lose_if_silent(self) -> None:
        if self._is_silent() and self._coordinator is not None:
            self._unknown_since = self._coordinator.heard_at
            self._coordinator.drop("no answer for the session time-out")
            await self._lose(
                f"the coordinator of group {self._settings.group_id} did not answer for "
                f"{self._settings.session_timeout_ms} ms (session.timeout.ms)"
            )

    async def _lose(self, reason: str) -> None:
        self._expelled = False
        if self._state is not MemberState.MEMBER:
            return
        _log.warning("This worker is out of its group and stops its work: %s", reason)
        self._held, self._rejoin_at = None, None
        self._become(MemberState.CONNECTING)
        await self._stop_work(self._listener.on_lost(reason))

    async def _depart(self, reason: str) -> None:
        self._held, self._rejoin_at = None, None
        if self._coordinator is not None and not self._is_silent():
            await self._coordinator.maybe_leave_group_async(reason, _LEAVE_TIMEOUT_MS)
        self._expelled = False

    async def _fail(self, error: Exception) -> None:
        if isinstance(error, client_errors.GroupAuthorizationFailedError):
            error = AuthorizationError(f"group {self._settings.group_id}", "READ")
        elif isinstance(error, client_errors.KafkaError):
            doing = f"joining group {self._settings.group_id}"
            error = translated(error, doing, address=",".join(self._config.bootstrap_servers))
        _log.error("This worker cannot be a member of group %s", self._settings.group_id, exc_info=error)
        await self._lose(str(error))
        self._become(MemberState.FAILED)
        self._listener_loop.call(self._listener.on_failed, error)

    # -- the actions of a rebalance (coordinator.Rebalancing) ----------------------------------------------

    def protocols(self) -> Iterable[tuple[str, bytes]]:
        """Offer this worker's protocols, with the work that it runs."""
        self._pace.began(time.thread_time())
        own, offset = self._settings, self._config_offset()
        metadata = WorkerMetadata(
            url=own.url,
            config_offset=offset,
            assignment=self._held,
            support=own.support,
            topics=own.topics,
            files=own.files,
        )
        return [(str(protocol), encode_metadata(metadata, protocol)) for protocol in own.protocol.offered]

    async def before_joining(self) -> None:
        """Stop all connectors and tasks if the group rebalances eagerly."""
        if self._protocol is ConnectProtocol.EAGER:
            await self._revoke_all()

    async def before_request(self) -> None:
        """Stop all work if the coordinator no longer knows this member: the next JoinGroup makes it a new member.

        A new member owns no work.
        """
        if self._expelled:
            await self._lose(f"the coordinator of group {self._settings.group_id} does not know it as a member")

    def assign(self, leader: str, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Compute the assignments as the leader. A member whose metadata cannot be read gets no work."""
        spoken = ConnectProtocol(protocol)
        metadata = dict(self._readable(members))
        election = Election(leader=leader, protocol=spoken, members=metadata, held=self._held)
        return {name: encode_assignment(given, spoken) for name, given in self._assign(election).items()}

    def _readable(self, members: Mapping[str, bytes]) -> Iterator[tuple[str, WorkerMetadata]]:
        for name, data in members.items():
            try:
                yield name, decode_metadata(data)
            except GroupProtocolError as error:
                _log.warning("Group %s: the member %s gets no work. %s", self._settings.group_id, name, error)

    async def joined(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        """Apply an assignment: stop the revoked work, then notify the listener of the assigned work.

        If the assignment cannot be read, all work stops, and the member joins again after a pause: the leader may have
        changed.
        """
        try:
            given = decode_assignment(assignment)
        except GroupProtocolError as error:
            _log.warning("Group %s: no work can be assigned to this worker. %s", self._settings.group_id, error)
            await self._lose(str(error))
            self._rejoin_at = time.monotonic() + _UNREADABLE_PAUSE_S
            return
        self._protocol = ConnectProtocol(protocol)
        self._become(MemberState.MEMBER)
        self._watch_coordinator()
        if self._protocol is ConnectProtocol.EAGER:
            # Some work still runs if the group has just changed from cooperative to eager rebalancing.
            await self._revoke_all()
        given = given.revoking_of(self._held)
        if given.revokes:
            await self._stop_work(self._listener.on_revoked(given.revoked_connectors, given.revoked_tasks))
        if self._closing or self._is_silent():
            return
        whole = given.added_to(self._held)
        # `_held` is only this member's own work, without the leader's data about other members.
        own = replace(whole, error=0, revoked_connectors=(), revoked_tasks=(), delay_ms=0)
        self._held = replace(own, supports=(), leader_topics=UNKNOWN_TOPICS, other_topics=(), files=())
        self._rejoin_at = time.monotonic() + given.delay_ms / 1000 if given.delay_ms else None
        if given.revokes:
            self._ask_to_join()
        self._pace.ended(time.thread_time(), time.monotonic())
        membership = Membership(generation=generation, member_id=member_id, protocol=self._protocol, assignment=whole)
        self._listener_loop.call(self._listener.on_assigned, membership)

    def expelled(self) -> None:
        """Remember to stop everything before the next join."""
        self._expelled = True

    def wake(self) -> None:
        """End the pause of the member's loop."""
        self._wake()

    async def _revoke_all(self) -> None:
        held, self._held = self._held, None
        if held is not None and (held.connectors or held.tasks):
            await self._stop_work(self._listener.on_revoked(held.connectors, held.tasks))

    # -- between the threads ------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with suppress(RuntimeError):  # closed
            self._wakeup.notify()

    async def _stop_work(self, stopping: Coroutine[Any, Any, None]) -> None:
        """Let the listener stop work, while heartbeats continue.

        The member waits at most for the rebalance time-out. It stops waiting when it is closed or disconnected.
        """
        deadline = Deadline.after(self._settings.rebalance_timeout_ms)

        def goes_on() -> bool:
            if self._closing or self._is_silent() or deadline.passed:
                return False
            if self._coordinator is not None:
                self._coordinator.still_alive()
            return True

        await self._listener_loop.run_stop(stopping, goes_on, check_every_ms=_TICK_MS)

    def _become(self, state: MemberState) -> None:
        if state not in TRANSITIONS[self._state]:
            raise IllegalStateError(f"A group member is {self._state} and cannot become {state}")
        self._state = state
