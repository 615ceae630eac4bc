"""Tracks whether this worker leads its group, and so may write connectors and tasks to the config topic (KIP-618).

                      assigned as leader
    FOLLOWING ─────────────────────────────> CLAIMING <──┐ not claimed: retried
        ^                                     │    └─────┘
        │ assigned as follower, lost          │ claimed, config topic read to its end
        ├─────────────────────────────────────┤
        │                                     v
        └──────────────────────────────── LEADING
              or a write was fenced

A leader whose write fails may have been replaced without knowing it. It does not claim the privilege again, which would
fence its successor, but joins the group again: that determines the leader.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from enum import Enum, auto
from typing import Final, TypeVar

from fencepost.api.errors import FencepostError, IllegalStateError
from fencepost.config.group_config import GroupConfig
from fencepost.config.worker_config import ExactlyOnceSourceSupport
from fencepost.herder.core.calls import outcome_of
from fencepost.herder.core.group_decisions import HerderCommand, Rejoin
from fencepost.herder.distributed.config_topic import ConfigTopic
from fencepost.herder.distributed.readiness import Readiness, Standing
from fencepost.herder.errors import (
    BadRequestError,
    ForbiddenError,
    NotLeaderError,
    RequestFailedError,
    ServiceUnavailableError,
)
from fencepost.herder.peers.request_signing import AcceptedRequests, SignedRequest
from fencepost.herder.peers.rest_client import Signer
from fencepost.kafka.errors import AuthorizationError
from fencepost.kafka.group.membership import Membership
from fencepost.kafka.group.protocol import ConnectProtocol
from fencepost.storage.configs.codec import SessionKey
from fencepost.storage.errors import ConfigTimestampError, ConfigTooLargeError, ConfigWriteError

_log: Final = logging.getLogger(__name__)

_CLAIM_AGAIN_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 10.0
_KEY_AGAIN_SECONDS: Final = 1.0
_CLAIM_TIMEOUT_SECONDS: Final = 60.0

T = TypeVar("T")


class LeadershipState(Enum):
    """The states in the module's diagram."""

    FOLLOWING = auto()
    CLAIMING = auto()
    LEADING = auto()


TRANSITIONS: Final[Mapping[LeadershipState, frozenset[LeadershipState]]] = {
    LeadershipState.FOLLOWING: frozenset({LeadershipState.CLAIMING, LeadershipState.FOLLOWING}),
    LeadershipState.CLAIMING: frozenset({LeadershipState.LEADING, LeadershipState.FOLLOWING}),
    LeadershipState.LEADING: frozenset({LeadershipState.FOLLOWING}),
}


class Leadership:
    """Tracks the leader, and writes as the leader. `carry_out` gives the herder a command."""

    def __init__(
        self,
        group: GroupConfig,
        config_topic: ConfigTopic,
        readiness: Readiness,
        carry_out: Callable[[HerderCommand], None],
    ) -> None:
        self._group = group
        self._topic = config_topic
        self._readiness = readiness
        self._carry_out = carry_out
        self._state = LeadershipState.FOLLOWING
        self._changed = asyncio.Condition()
        # An asyncio lock, held during a whole write: a write may depend on everything that was written before it.
        self._turn = asyncio.Lock()
        # Whether the config topic may have records of this worker that it has not read back yet.
        self._unread = False
        self._term: asyncio.Task[None] | None = None
        self._refusal: FencepostError | None = None
        # How many writes in a row have lost the privilege.
        self._failures = 0
        self._key_failure = ""
        self._accepted = AcceptedRequests()
        self.membership: Membership | None = None
        self.key_problem: str | None = None
        """If this worker leads the group and the broker refuses its session key: the reason and the remedy."""

    @property
    def leads(self) -> bool:
        """Whether this worker may write as the leader."""
        return self._state is LeadershipState.LEADING

    @property
    def leader_url(self) -> str | None:
        """The leader's address, None if unknown."""
        return None if self.membership is None else self.membership.assignment.leader_url

    @property
    def all_enabled(self) -> bool:
        """Whether all members of the group announced that they are enabled for exactly-once delivery."""
        supports = () if self.membership is None else self.membership.assignment.supports
        return bool(supports) and all(support == ExactlyOnceSourceSupport.ENABLED for _, support in supports)

    @property
    def _fencepost_only(self) -> bool:
        """Whether all members of the group are known to be fencepost's workers, which announce their setting."""
        supports = () if self.membership is None else self.membership.assignment.supports
        return bool(supports) and all(support for _, support in supports)

    @property
    def signer(self) -> Signer | None:
        """The signer of requests to other workers; None if they are not signed. Raises ServiceUnavailableError."""
        if not self._sessioned:
            return None
        key = self._topic.state.session_key
        if key is None:
            raise ServiceUnavailableError("This worker has not read the group's session key yet")
        return Signer(key.key, self._group.signature_algorithm)

    async def signed(self, request: Callable[[Signer | None], Awaitable[T]]) -> T:
        """Send a request to another worker.

        If its signature is refused and there is a newer session key, send it again.

        Raises the errors of the request, of `signer`, and of reading the config topic.
        """
        signer = self.signer
        try:
            return await request(signer)
        except ForbiddenError:
            # The leader uses a new key as soon as it is written. This worker may not have read it yet.
            await self._topic.read()
            if self.signer == signer:
                raise
            return await request(self.signer)

    def assigned(self, membership: Membership) -> None:
        """Apply a new generation of the group."""
        self.membership = membership
        if not membership.leader:
            self._step_down()
        elif self._state is LeadershipState.FOLLOWING:
            self._become(LeadershipState.CLAIMING)
            self._term = asyncio.ensure_future(self._lead())

    def lost(self) -> None:
        """Record that this worker is not in a group."""
        self.membership = None
        self._step_down()

    def verify(self, request: SignedRequest) -> None:
        """Check another worker's request. Raises the errors of `SignedRequest.verify` and `AcceptedRequests.accept`."""
        if self._sessioned:
            key, now_ms = self._topic.state.session_key, time.time_ns() // 1_000_000
            request.verify(
                None if key is None else key.key,
                self._group.verification_algorithms,
                now_ms=now_ms,
                bound=self._fencepost_only,
            )
            if self.leads:
                # Only the leader records a request as accepted. Any other worker forwards the request, and may get it
                # again.
                self._accepted.accept(request, now_ms=now_ms)

    async def require(self) -> None:
        """Return once this worker may write as the leader.

        Raises NotLeaderError, ServiceUnavailableError if the leader is not known yet, and RequestFailedError if the
        write privilege cannot be claimed.
        """
        if self.membership is None:
            raise ServiceUnavailableError("This worker is not in its group at the moment: ask again soon")
        if self._state is LeadershipState.CLAIMING:
            await self._claimed()
        if self._state is LeadershipState.FOLLOWING:
            raise NotLeaderError(
                "Only the leader of the group can do this", forward_url=None if self._is_leader else self.leader_url
            )

    async def write(self, write: Callable[[], Future[T]], *, check: Callable[[], None] = lambda: None) -> T:
        """Write as leader, after all earlier writes, even failed ones, are read back.

        `check` is called right before the write and may raise. Raises the errors of `require` and of reading the config
        topic, BadRequestError for records that are too large, and RequestFailedError if the write fails.
        """
        await self.require()
        # The caller may stop waiting, but the next write still waits for this one.
        return await outcome_of(asyncio.ensure_future(self._write_in_turn(write, check)))

    async def write_task_count(self, connector: str, count: int, *, check: Callable[[], None]) -> None:
        """Write that former tasks are fenced, and that `count` tasks may start. Raises the errors of `write`."""
        await self.write(lambda: self._topic.store.put_task_count(connector, count), check=check)

    async def _write_in_turn(self, write: Callable[[], Future[T]], check: Callable[[], None]) -> T:
        try:
            async with self._turn:
                await self._catch_up()
                check()
                self._unread = True
                written = await asyncio.wrap_future(write())
                self._unread = False
                self._written()
                return written
        except ConfigTooLargeError as error:
            raise BadRequestError(str(error)) from error
        except (ConfigWriteError, IllegalStateError) as error:
            self._failed(error)
            raise RequestFailedError(str(error)) from error

    async def _catch_up(self) -> None:
        """Read back the records that an earlier, failed write may have left in the config topic.

        These records may be task configurations. If this worker did not read them, it might next write a task count
        record for the previous configurations. In the topic, that record would follow the new configurations, so the
        new ones would be treated as fenced.
        """
        # While this write waited for its turn, another write may have failed and lost the privilege.
        await self.require()
        if self._unread:
            await self._topic.read()
            self._unread = False
            await self.require()

    @property
    def _is_leader(self) -> bool:
        return self.membership is not None and self.membership.leader

    @property
    def _sessioned(self) -> bool:
        return self.membership is not None and self.membership.protocol is ConnectProtocol.SESSIONED

    @property
    def _refused_for_good(self) -> bool:
        return isinstance(self._refusal, AuthorizationError) or self._topic.store.fatal_failure is not None

    async def _claimed(self) -> None:
        try:
            async with asyncio.timeout(_CLAIM_TIMEOUT_SECONDS), self._changed:
                await self._changed.wait_for(
                    lambda: self._state is not LeadershipState.CLAIMING or self._refused_for_good
                )
        except TimeoutError:
            within = f" within {_CLAIM_TIMEOUT_SECONDS:.0f} s"
        else:
            within = ""
        if self._state is LeadershipState.CLAIMING:
            self._topic.check()
            raise RequestFailedError(
                f"This worker leads the group, but could not claim the right to write to the config topic{within}: "
                f"{self._refusal or 'no broker answered yet'}. This can be retried"
            )

    def _written(self) -> None:
        self._failures, self._refusal = 0, None

    def _failed(self, error: ConfigWriteError | IllegalStateError) -> None:
        """If a failed write lost the privilege, join the group again.

        Each consecutive failure delays the next claim more.
        """
        if isinstance(error, IllegalStateError) or error.privilege_lost:
            self._failures, self._refusal = self._failures + 1, error
            self._step_down()
            self._carry_out(Rejoin())

    async def _lead(self) -> None:
        if self._failures:
            await asyncio.sleep(claim_pause_s(self._failures))
        self._refusal = None
        while not await self._claim():
            _log.debug("Trying again to lead the group")
        self._become(LeadershipState.LEADING)
        await self._notify()
        _log.info("This worker leads the group")
        while self._sessioned:
            seconds = await self._keep_session_key()
            await asyncio.sleep(seconds)

    async def _claim(self) -> bool:
        """Try to claim the privilege; if that fails, pause before the next attempt.

        The reason of the failure is logged only when it changes.
        """
        try:
            await asyncio.wrap_future(self._topic.store.claim_write_privilege())
            await self._topic.read()
        except FencepostError as error:
            if str(error) != str(self._refusal):
                _log.warning("The right to write to the config topic is not claimed; retrying: %s", error)
            self._refusal = error
            await self._notify()
            await asyncio.sleep(_CLAIM_AGAIN_SECONDS)
            return False
        return True

    async def _keep_session_key(self) -> float:
        """Write a new session key if it is due, and return the seconds until the next check."""
        settings = self._group
        now = time.time_ns() // 1_000_000
        key = self._topic.state.session_key
        if key is not None and now < key.creation_timestamp + settings.key_ttl_ms:
            return (key.creation_timestamp + settings.key_ttl_ms - now) / 1000
        fresh = SessionKey(secrets.token_bytes(settings.key_size), settings.key_algorithm, now)
        try:
            await asyncio.wrap_future(self._topic.store.put_session_key(fresh))
        except (ConfigWriteError, IllegalStateError) as error:
            if str(error) != self._key_failure:
                _log.warning("The group's session key is not renewed; retrying: %s", error)
            self._key_failure = str(error)
            if isinstance(error, ConfigTimestampError):
                self.key_problem = str(error)
            # If the privilege is lost, this also cancels the current asyncio task.
            self._failed(error)
        else:
            self._key_failure, self.key_problem = "", None
            self._written()
        return _KEY_AGAIN_SECONDS

    def _step_down(self) -> None:
        self.key_problem = None
        term, self._term = self._term, None
        if term is not None:
            term.cancel()
        if self._is_leader:
            # Only the group can determine whether this worker is still its leader.
            self._readiness.become(Standing.JOINING)
        self._become(LeadershipState.FOLLOWING)
        # Notify the waiters for the claim.
        asyncio.ensure_future(self._notify())  # noqa: RUF006 - nothing waits for it

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _become(self, state: LeadershipState) -> None:
        if state is not self._state and state not in TRANSITIONS[self._state]:
            raise IllegalStateError(f"A worker is {self._state.name} and cannot become {state.name}")
        self._state = state


def claim_pause_s(failures: int) -> float:
    """Return the seconds to wait before the privilege is claimed again, if `failures` writes in a row have lost it."""
    return min(_LONGEST_PAUSE_SECONDS, _CLAIM_AGAIN_SECONDS * 2.0 ** min(failures - 1, 10)) if failures else 0.0
