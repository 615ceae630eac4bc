"""Group members that send unreadable metadata or assignments: the workers stay members, and go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest
from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.group import member
from fencepost.kafka.group.membership import MemberState
from fencepost.kafka.group.protocol import PROTOCOL_TYPE, ConnectProtocol
from fencepost.kafka.transport.connection import Connection
from fencepost.kafka.transport.error_codes import Code
from tests.broker.kafka.test_group_member import a_cluster, expel
from tests.broker.kafka.test_group_size import coordinator
from tests.support.group import SESSION_MS, until
from tests.support.processes import wait_for

PROTOCOL = str(ConnectProtocol.SESSIONED)


class Stranger:
    """A member with arbitrary bytes as its metadata. It sends no heartbeats."""

    def __init__(self, connection: Connection, group: str, metadata: bytes) -> None:
        self._connection = connection
        self._group = group
        self._metadata = metadata
        self.id = ""

    def join(self) -> Any:
        """Join, and return the answer, which comes once all members have joined."""

        def joined() -> Any:
            answer = self._ask(
                JoinGroupRequest(
                    group_id=self._group,
                    session_timeout_ms=5 * SESSION_MS,
                    rebalance_timeout_ms=5 * SESSION_MS,
                    member_id=self.id,
                    group_instance_id=None,
                    protocol_type=PROTOCOL_TYPE,
                    protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._metadata)],
                    reason=None,
                )
            )
            self.id = answer.member_id
            return answer if answer.error_code == Code.NONE else None

        return wait_for(joined)

    def sync(self, generation: int, assignments: Sequence[tuple[str, bytes]] = ()) -> Any:
        """Send SyncGroup, with assignments if this member is the leader, and return the answer."""
        row = SyncGroupRequest.SyncGroupRequestAssignment
        return self._ask(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=generation,
                member_id=self.id,
                group_instance_id=None,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL,
                assignments=[row(member_id=name, assignment=given) for name, given in assignments],
            )
        )

    def _ask(self, request: Any) -> Any:
        self._connection.send(request)
        return self._connection.receive()[1]


@contextmanager
def stranger(bootstrap_servers: str, group: str, metadata: bytes) -> Iterator[Stranger]:
    config = ClientConfig((bootstrap_servers,))
    with closing(Connection(coordinator(config, group), config)) as connection:
        yield Stranger(connection, group, metadata)


@pytest.mark.parametrize("metadata", [b"", b"\xff" * 50, b"\0\2\0\2\xff\xfe"], ids=["nothing", "a version", "no text"])
def test_the_leader_gives_no_work_to_a_member_that_it_cannot_read(bootstrap_servers: str, metadata: bytes):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            worker = cluster.worker("worker", bootstrap_servers)
            await cluster.settled(worker)
            with stranger(bootstrap_servers, cluster.group_id, metadata) as other:
                joined = await asyncio.to_thread(other.join)
                answer = await asyncio.to_thread(other.sync, joined.generation_id)
                assert (answer.error_code, bytes(answer.assignment)) == (Code.NONE, b"")
                await until(lambda: worker.memberships[-1].generation == joined.generation_id)
                await cluster.settled(worker)
                assert (worker.failures, worker.lost) == ([], [])
                await asyncio.to_thread(expel, bootstrap_servers, cluster.group_id, other.id)

    asyncio.run(scenario())


def test_a_worker_whose_leader_sends_what_it_cannot_read_joins_again(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(member, "_UNREADABLE_PAUSE_S", 0.2)

    async def scenario() -> None:
        async with a_cluster() as cluster:
            with stranger(bootstrap_servers, cluster.group_id, b"") as other:
                alone = await asyncio.to_thread(other.join)
                await asyncio.to_thread(other.sync, alone.generation_id, [(other.id, b"")])
                worker = cluster.worker("worker", bootstrap_servers)
                joined = await asyncio.to_thread(other.join)
                while len(joined.members) < 2:
                    await asyncio.to_thread(other.sync, joined.generation_id, [(other.id, b"")])
                    joined = await asyncio.to_thread(other.join)
                rows = [(row.member_id, b"\xff" * 50) for row in joined.members]
                await asyncio.to_thread(other.sync, joined.generation_id, rows)
                await until(lambda: "no work can be assigned to this worker" in caplog.text)
                assert worker.member.state is MemberState.CONNECTING
                await asyncio.to_thread(expel, bootstrap_servers, cluster.group_id, other.id)
            await cluster.settled(worker)
            assert worker.failures == []

    asyncio.run(scenario())
