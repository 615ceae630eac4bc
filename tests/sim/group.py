"""The coordinator of a group of workers, and a member of the group.

The member does what kafka.group_member does with kafka-python: it joins, leads a round if it is made the leader, takes
its assignment, sends heartbeats, and stops everything when it has not heard of the coordinator for a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fencepost.kafka.group.membership import GroupListener, GroupSettings, Membership
from fencepost.kafka.group.protocol import Assignment, ConnectProtocol, Election, WorkerMetadata
from tests.sim.kernel import Kernel

if TYPE_CHECKING:
    from tests.sim.clients import Site

SESSION_S = 6.0
HEARTBEAT_S = 2.0
REBALANCE_S = 10.0

Reply = Callable[[Any], None]


@dataclass
class _Member:
    metadata: WorkerMetadata
    heard_at: float
    watched: bool = False
    join: Reply | None = None
    sync: Reply | None = None


class GroupCoordinator:
    """Kafka's group coordinator. A reply is a tuple that begins with `ok`, `unknown`, or `again`."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._members: dict[str, _Member] = {}
        self._generation = 0
        self._leader = ""
        self._phase = "stable"
        self._assignments: Mapping[str, Assignment] | None = None
        self._round = 0
        self._names = 0

    def join(self, member_id: str, metadata: WorkerMetadata, reply: Reply) -> None:
        """Answer ("ok", generation, id, leader, members) when all have joined; only the leader gets the members."""
        if member_id and member_id not in self._members:
            reply(("unknown",))
            return
        fresh = not member_id
        if fresh:
            self._names += 1
            member_id = f"{metadata.url}#{self._names}"
        found = self._members.setdefault(member_id, _Member(metadata, self._kernel.now))
        settled = self._phase == "stable" and not fresh and member_id != self._leader and found.metadata == metadata
        found.metadata, found.heard_at, found.join = metadata, self._kernel.now, reply
        if settled:
            self._answer_join(member_id)
        elif self._phase != "joining":
            self._rebalance()
        self._complete()
        self._watch(member_id)

    def sync(self, member_id: str, generation: int, assignments: Mapping[str, Assignment] | None, reply: Reply) -> None:
        """Answer ("ok", assignment) once the leader has sent the assignments."""
        found = self._members.get(member_id)
        if found is None:
            reply(("unknown",))
        elif generation != self._generation or self._phase == "joining":
            reply(("again",))
        else:
            found.heard_at, found.sync = self._kernel.now, reply
            if self._phase == "syncing" and member_id == self._leader and assignments is not None:
                self._assignments, self._phase = assignments, "stable"
            if self._phase == "stable":
                self._answer_syncs()

    def heartbeat(self, member_id: str, generation: int) -> str:
        found = self._members.get(member_id)
        if found is None:
            return "unknown"
        found.heard_at = self._kernel.now
        return "ok" if generation == self._generation and self._phase != "joining" else "again"

    def leave(self, member_id: str) -> None:
        if self._members.pop(member_id, None) is not None:
            self._rebalance()

    def _rebalance(self) -> None:
        for found in self._members.values():
            if found.sync is not None:
                found.sync(("again",))
                found.sync = None
        self._phase = "joining"
        self._round += 1
        number = self._round
        self._kernel.later(REBALANCE_S, lambda: self._expel_idle(number))
        self._complete()

    def _expel_idle(self, number: int) -> None:
        if self._phase == "joining" and self._round == number:
            self._members = {name: found for name, found in self._members.items() if found.join is not None}
            self._complete()

    def _complete(self) -> None:
        if self._phase != "joining" or not self._members or any(m.join is None for m in self._members.values()):
            return
        self._generation += 1
        self._phase, self._assignments = "syncing", None
        if self._leader not in self._members:
            self._leader = next(iter(self._members))
        self._kernel.note(f"group: generation {self._generation} of {', '.join(self._members)}")
        for name in list(self._members):
            self._answer_join(name)
            self._watch(name)

    def _answer_join(self, member_id: str) -> None:
        found = self._members[member_id]
        reply, found.join, found.heard_at = found.join, None, self._kernel.now
        leads = member_id == self._leader and self._phase == "syncing"
        members = {name: member.metadata for name, member in self._members.items()} if leads else None
        if reply is not None:
            reply(("ok", self._generation, member_id, self._leader, members))

    def _answer_syncs(self) -> None:
        assert self._assignments is not None
        for name, found in self._members.items():
            if found.sync is not None:
                found.sync(("ok", self._assignments.get(name, Assignment())))
                found.sync = None

    def _watch(self, member_id: str) -> None:
        found = self._members.get(member_id)
        if found is not None and not found.watched:
            found.watched = True
            self._kernel.later(SESSION_S, lambda: self._expel(member_id, found))

    def _expel(self, member_id: str, found: _Member) -> None:
        found.watched = False
        if self._members.get(member_id) is not found or found.join is not None:
            return
        left = found.heard_at + SESSION_S - self._kernel.now
        if left > 0.001:
            found.watched = True
            self._kernel.later(left, lambda: self._expel(member_id, found))
            return
        self._kernel.note(f"group: {member_id} was silent for a session")
        del self._members[member_id]
        self._rebalance()


class SimMember:
    """A worker's group member, on two threads: one for rebalances, and one that sends heartbeats."""

    def __init__(
        self,
        site: Site,
        settings: GroupSettings,
        *,
        config_offset: Callable[[], int],
        assign: Callable[[Election], Mapping[str, Assignment]],
        listener: GroupListener,
        observer: object = None,
    ) -> None:
        del observer
        self._process = site.process
        self._kernel = site.kernel
        self._network = site.network
        self._group = site.group
        self._url = settings.url
        self._support = settings.support
        self._topics = settings.topics
        self._protocol = settings.protocol
        self._config_offset = config_offset
        self._assign = assign
        self._listener = listener
        self._id = ""
        self._generation = -1
        self._held: Assignment | None = None
        self._is_member = False
        self._joining = False
        self._expelled = False
        self._rejoin_asked = True
        self._rejoin_at: float | None = None
        self._heard_at = 0.0
        self._woken: Callable[[], None] = lambda: None
        self._closing = False

    def start(self) -> None:
        self._process.spawn(self._live)
        self._process.spawn(self._beat)

    def rejoin(self) -> None:
        self._rejoin_asked = True
        self._woken()

    async def close(self) -> None:
        """Leave the group."""
        self._closing = True
        member, self._id = self._id, ""
        if member:
            await self._network.ask_async(lambda reply: reply(self._group.leave(member) or True), timeout=3.0)

    # -- threads ------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._closing:
            self._kernel.sleep(HEARTBEAT_S)
            if self._id and not self._joining and self._generation >= 0:
                sent_at, member, generation = self._kernel.now, self._id, self._generation
                answer = self._network.call(partial(self._group.heartbeat, member, generation), timeout=SESSION_S)
                if answer is None or member != self._id:
                    continue
                if answer == "unknown":
                    self._forget()
                else:
                    self._heard_at = max(self._heard_at, sent_at)
                    self._rejoin_asked |= answer == "again" and generation == self._generation
            self._woken()

    def _live(self) -> None:
        while not self._closing:
            self._lose_if_silent()
            if self._rejoin_at is not None and self._kernel.now >= self._rejoin_at:
                self._rejoin_asked, self._rejoin_at = True, None
            if self._rejoin_asked:
                self._join()
            else:
                self._rest()

    def _rest(self) -> None:
        fiber = self._kernel.fiber
        ticket = fiber.ticket()
        process = self._process
        self._woken = lambda: self._kernel.later(0.0, lambda: fiber.wake(ticket, None), process)
        moments = [self._kernel.now + HEARTBEAT_S]
        if self._is_member:
            moments.append(self._heard_at + SESSION_S)
        if self._rejoin_at is not None:
            moments.append(self._rejoin_at)
        fiber.park(max(0.0, min(moments) - self._kernel.now))
        self._woken = lambda: None

    def _join(self) -> None:
        if self._protocol is ConnectProtocol.EAGER:
            self._revoke_all()
        if self._expelled:
            self._lose("the coordinator does not know it")
        self._rejoin_asked, self._joining = False, True
        metadata = WorkerMetadata(
            url=self._url,
            config_offset=self._config_offset(),
            assignment=self._held,
            support=self._support,
            topics=self._topics,
        )
        member = self._id
        answer = self._network.ask(lambda reply: self._group.join(member, metadata, reply), timeout=REBALANCE_S + 2)
        given = self._sync(answer) if answer is not None and answer[0] == "ok" else answer
        self._joining = False
        if given is not None and given[0] == "ok":
            self._heard_at = self._kernel.now
            self._take(given[1])
            return
        if given is not None and given[0] == "unknown":
            self._forget()
        self._rejoin_asked = True
        self._kernel.sleep(0.1)

    def _sync(self, answer: Any) -> Any:
        _, self._generation, self._id, leader, members = answer
        generation, member, shares = self._generation, self._id, None
        if members is not None:
            election = Election(leader=leader, protocol=self._protocol, members=members, held=self._held)
            shares = self._assign(election)
        return self._network.ask(lambda reply: self._group.sync(member, generation, shares, reply), timeout=SESSION_S)

    def _forget(self) -> None:
        self._id, self._generation, self._expelled, self._rejoin_asked = "", -1, True, True

    # -- as kafka.group_member does -----------------------------------------------------------------------------

    def _take(self, given: Assignment) -> None:
        self._is_member, self._expelled = True, False
        if self._protocol is ConnectProtocol.EAGER:
            self._revoke_all()
        given = given.revoking_of(self._held)
        if given.revokes:
            self._tell(self._listener.on_revoked(given.revoked_connectors, given.revoked_tasks))
        if self._is_silent():
            return
        whole = given.added_to(self._held)
        self._held = replace(whole, error=0, revoked_connectors=(), revoked_tasks=(), delay_ms=0)
        self._rejoin_at = self._kernel.now + given.delay_ms / 1000 if given.delay_ms else None
        self._rejoin_asked |= given.revokes
        membership = Membership(
            generation=self._generation, member_id=self._id, protocol=self._protocol, assignment=whole
        )
        self._process.loop.call_soon(self._listener.on_assigned, membership)

    def _revoke_all(self) -> None:
        held, self._held = self._held, None
        if held is not None and (held.connectors or held.tasks):
            self._tell(self._listener.on_revoked(held.connectors, held.tasks))

    def _is_silent(self) -> bool:
        return self._is_member and self._kernel.now >= self._heard_at + SESSION_S

    def _lose_if_silent(self) -> None:
        if self._is_silent():
            self._lose("no answer for a session")
            self._rejoin_asked = True

    def _lose(self, reason: str) -> None:
        self._expelled = False
        if self._is_member:
            self._kernel.note(f"out of the group: {reason}")
            self._held, self._rejoin_at, self._is_member = None, None, False
            self._tell(self._listener.on_lost(reason))

    def _tell(self, stopping: Any) -> None:
        self._kernel.wait_for(stopping, REBALANCE_S)
