"""How many workers fit into the coordinator's record of a group."""

from __future__ import annotations

import select
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from fencepost.herder.distributed.assignor_leader import ConfiguredWork, LeaderAssignor
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.group.codec import decode_assignment, decode_metadata, encode_assignment, encode_metadata
from fencepost.kafka.group.protocol import PROTOCOL_TYPE, ConnectProtocol, Election, WorkerMetadata, WorkerTopics
from fencepost.kafka.transport.broker_client import BrokerClient
from fencepost.kafka.transport.connection import Address, Connection
from tests.support.processes import wait_for
from tests.support.topics import unique

WORKERS = 150
CONNECTORS = {f"connector-{number:04}": 20 for number in range(50)}
PROTOCOL = ConnectProtocol.SESSIONED
TOPICS = WorkerTopics(offset="fencepost-offsets", config="fencepost-configs", status="fencepost-statuses")
SESSION_MS = 120_000


class Member:
    """A connection that joins the group with any given metadata."""

    def __init__(self, connection: Connection, group: str, number: int) -> None:
        url = f"http://fencepost-{number:03}.fencepost.data.svc:8083/"
        self.connection = connection
        self.group = group
        self.metadata = WorkerMetadata(url=url, config_offset=1, support="enabled", topics=TOPICS)
        self.id = ""
        # The member id is empty while the coordinator loads.
        self.id = wait_for(lambda: self.join().member_id)

    def ask_to_join(self) -> None:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(
            name=str(PROTOCOL), metadata=encode_metadata(self.metadata, PROTOCOL)
        )
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
            reason=None,
        )
        self.connection.send(request)

    def answer(self) -> Any:
        return self.connection.receive()[1]

    def join(self) -> Any:
        self.ask_to_join()
        return self.answer()

    def ask_for_assignment(self, generation: int, assignments: Sequence[Any] = ()) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=self.id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=str(PROTOCOL),
            assignments=list(assignments),
        )
        self.connection.send(request)


def coordinator(config: ClientConfig, group: str) -> Address:
    lookup = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group])
    with BrokerClient(config) as client:

        def found() -> Address | None:
            (row,) = client.run(client.send, lookup, doing="looking for the coordinator").coordinators
            return None if row.error_code else (row.host, row.port)

        return wait_for(found)


def answered(members: set[Member]) -> list[tuple[Member, Any]]:
    """Wait for JoinGroup answers; return each with its member."""
    poll = select.poll()
    for member in members:
        poll.register(member.connection, select.POLLIN)
    readable = {descriptor for descriptor, _ in poll.poll(SESSION_MS)}
    assert readable, "no answer to JoinGroup"
    return [(member, member.answer()) for member in members if member.connection.fileno() in readable]


def generation_of_all(members: Sequence[Member]) -> tuple[int, Member, dict[str, WorkerMetadata]]:
    """Let all members join.

    Return the generation's number, its leader, and the members' metadata from the leader's answer.
    """
    joining, asking = list(members), set[Member]()
    while True:
        for member in joining:
            member.ask_to_join()
        asking.update(joining)
        joined: list[Member] = []
        leader, told = members[0], None
        # The leader's answer lists the members of the generation. Members not in it have to join again.
        while told is None or len(joined) < len(told.members):
            for member, answer in answered(asking):
                assert answer.error_code == 0
                asking.discard(member)
                joined.append(member)
                if answer.leader == answer.member_id:
                    leader, told = member, answer
        if len(joined) == len(members):
            metadata = {row.member_id: decode_metadata(bytes(row.metadata)) for row in told.members}
            return told.generation_id, leader, metadata
        joining = joined


def test_a_group_of_150_workers_fits_into_the_coordinators_record(bootstrap_servers: str):
    group, config = unique("workers"), ClientConfig(bootstrap_servers=(bootstrap_servers,))
    address = coordinator(config, group)
    with ExitStack() as stack:
        connections = [stack.enter_context(closing(Connection(address, config))) for _ in range(WORKERS)]
        members = [Member(connection, group, number) for number, connection in enumerate(connections)]
        generation, leader, told = generation_of_all(members)
        assign = LeaderAssignor(lambda: ConfiguredWork(config_offset=1, task_counts=CONNECTORS), max_delay_ms=0)
        shares = assign(Election(leader=leader.id, protocol=PROTOCOL, members=told, held=None))
        rows = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=name, assignment=encode_assignment(share, PROTOCOL))
            for name, share in shares.items()
        ]
        for member in members:
            member.ask_for_assignment(generation, rows if member is leader else ())
        answers = [member.answer() for member in members]
    assert {answer.error_code for answer in answers} == {0}
    given = [decode_assignment(bytes(answer.assignment)) for answer in answers]
    assert sum(len(share.tasks) for share in given) == sum(CONNECTORS.values())
    assert all(len(share.supports) == WORKERS for share in given)
