"""Members of a group of workers, on a real coordinator and with kafka-python's coordinator client."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Consumer
from kafka.protocol.consumer import LeaveGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from fencepost.herder.distributed.assignor_leader import ConfiguredWork
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.errors import BrokerRefusedError
from fencepost.kafka.group.membership import MemberState
from fencepost.kafka.group.pace import SHARE
from fencepost.kafka.group.protocol import ConnectProtocol
from fencepost.kafka.precedence import HEARTBEAT
from fencepost.kafka.transport.broker_client import BrokerClient
from tests.support.fault_proxy import Act, ApiKey, FaultProxy, Link
from tests.support.group import SESSION_MS, Cluster, until
from tests.support.topics import unique

WORK = {"a": 3, "b": 2}


@pytest.fixture(autouse=True)
def _nothing_fails_unseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Errors in callbacks are only logged, so check the log for them."""
    yield
    unseen = ("asyncio", "concurrent.futures", "kafka.net.selector", "kafka.future")
    assert not [
        record
        for record in caplog.get_records("call")
        if record.levelno >= logging.ERROR and record.name.startswith(unseen)
    ]


@asynccontextmanager
async def a_cluster(*, max_delay_ms: int = 0, work: dict[str, int] | None = None) -> AsyncIterator[Cluster]:
    cluster = Cluster(unique("workers"), work or WORK, max_delay_ms=max_delay_ms)
    try:
        yield cluster
    finally:
        await cluster.close()
    assert cluster.run_twice == []


@pytest.mark.parametrize("protocol", ConnectProtocol)
def test_workers_that_come_and_go_share_the_work(bootstrap_servers: str, protocol: ConnectProtocol):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            first = cluster.worker("first", bootstrap_servers, protocol=protocol)
            await cluster.settled(first)
            second = cluster.worker("second", bootstrap_servers, protocol=protocol)
            third = cluster.worker("third", bootstrap_servers, protocol=protocol)
            await cluster.settled(first, second, third)
            assert [worker.leads for worker in cluster.workers] == [True, False, False]
            assert {worker.memberships[-1].protocol for worker in cluster.workers} == {protocol}
            first.runs = frozenset()
            await first.member.close()
            await cluster.settled(second, third)
            assert second.leads != third.leads
            assert first.member.state is MemberState.CLOSED

    asyncio.run(scenario())


def test_a_disconnected_worker_stops_its_work_and_gets_it_back(bootstrap_servers: str, fault_proxy: FaultProxy):
    async def scenario() -> None:
        async with a_cluster(max_delay_ms=120_000) as cluster:
            stays = cluster.worker("stays", bootstrap_servers)
            await cluster.settled(stays)
            cut = cluster.worker("cut", fault_proxy.address)
            await cluster.settled(stays, cut)
            before = stays.runs, cut.runs
            fault_proxy.to_broker = Link.DROP
            await until(lambda: bool(cut.lost))
            assert "session.timeout.ms" in cut.lost[0]
            assert (cut.runs, cut.member.state) == (frozenset(), MemberState.CONNECTING)
            await until(lambda: cut.member.coordinator_unknown_for > 0)
            # The coordinator has noticed the loss, and the leader delays the reassignment.
            await until(lambda: stays.memberships[-1].assignment.delay_ms > 0)
            fault_proxy.heal()
            fault_proxy.reset()
            await until(lambda: (stays.runs, cut.runs) == before)
            assert cut.member.coordinator_unknown_for == 0.0
            assert stays.lost == []

    asyncio.run(scenario())


def test_a_worker_whose_connections_break_stays_a_member(bootstrap_servers: str, fault_proxy: FaultProxy):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            direct = cluster.worker("direct", bootstrap_servers)
            proxied = cluster.worker("proxied", fault_proxy.address)
            await cluster.settled(direct, proxied)
            member_id = proxied.memberships[-1].member_id
            fault_proxy.reset()
            await until(lambda: fault_proxy.connections > 0)
            heard = direct.memberships[-1].generation
            cluster.configured = ConfiguredWork(config_offset=2, task_counts={"a": 3, "b": 3})
            direct.config_offset = proxied.config_offset = 2
            direct.member.rejoin()
            await cluster.settled(direct, proxied)
            assert proxied.memberships[-1].member_id == member_id
            assert proxied.memberships[-1].generation > heard
            assert proxied.lost == []

    asyncio.run(scenario())


def test_a_worker_disconnected_while_it_joins_stops_its_work(fault_proxy: FaultProxy):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            cut = cluster.worker("cut", fault_proxy.address, rebalance_timeout_ms=2_000)
            await cluster.settled(cut)
            answer = fault_proxy.on_response(ApiKey.JOIN_GROUP, Act.DROP)
            cut.member.rejoin()
            await until(lambda: bool(cut.lost))
            assert answer.sprung
            await cluster.settled(cut)

    asyncio.run(scenario())


def test_a_worker_that_was_expelled_stops_before_it_joins_again(bootstrap_servers: str):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            worker = cluster.worker("worker", bootstrap_servers)
            await cluster.settled(worker)
            member_id = worker.memberships[-1].member_id
            await asyncio.to_thread(expel, bootstrap_servers, cluster.group_id, member_id)
            await until(lambda: bool(worker.lost))
            assert "does not know it as a member" in worker.lost[0]
            await cluster.settled(worker)
            assert worker.memberships[-1].member_id != member_id

    asyncio.run(scenario())


def expel(bootstrap_servers: str, group_id: str, member_id: str) -> None:
    member = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None, reason="test")
    request = LeaveGroupRequest(group_id=group_id, member_id=member_id, members=[member])
    lookup = FindCoordinatorRequest(key=group_id, key_type=0, coordinator_keys=[group_id])
    with BrokerClient(ClientConfig(bootstrap_servers=(bootstrap_servers,))) as client:
        found = client.run(client.send, lookup, doing="looking for the coordinator")
        node = found.coordinators[0].node_id
        assert client.run(client.send, request, node, doing="expelling").error_code == 0


def test_the_work_of_a_worker_that_stays_away_goes_to_others_after_the_delay(bootstrap_servers: str):
    async def scenario() -> None:
        async with a_cluster(max_delay_ms=1_500) as cluster:
            stays, leaves = cluster.worker("stays", bootstrap_servers), cluster.worker("leaves", bootstrap_servers)
            await cluster.settled(stays, leaves)
            kept = stays.runs
            leaves.runs = frozenset()
            await leaves.member.close()
            await until(lambda: stays.memberships[-1].assignment.delay_ms > 0)
            assert stays.runs == kept
            await cluster.settled(stays)

    asyncio.run(scenario())


def test_nothing_moves_before_its_owner_has_stopped_it(bootstrap_servers: str):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            first = cluster.worker("first", bootstrap_servers)
            await cluster.settled(first)
            first.may_stop.clear()
            second = cluster.worker("second", bootstrap_servers)
            await until(lambda: bool(first.revocations and second.memberships))
            generation = second.memberships[-1].generation
            # Longer than a session timeout: heartbeats go on while connectors and tasks are being stopped.
            await asyncio.sleep(7)
            assert second.runs == frozenset()
            assert second.memberships[-1].generation == generation
            first.may_stop.set()
            await cluster.settled(first, second)
            assert first.lost == []

    asyncio.run(scenario())


def test_heartbeats_continue_while_hundreds_of_threads_compute(bootstrap_servers: str):
    stopping = threading.Event()

    def compute() -> None:
        while not stopping.is_set():
            HEARTBEAT.give_way()
            sum(range(1_000))

    async def scenario() -> None:
        async with a_cluster() as cluster:
            worker = cluster.worker("worker", bootstrap_servers)
            await cluster.settled(worker)
            threads = [threading.Thread(target=compute) for _ in range(200)]
            for thread in threads:
                thread.start()
            try:
                coordinator = worker.member._coordinator
                assert coordinator is not None
                two_sessions_later = time.monotonic() + 2 * SESSION_MS / 1000
                await until(lambda: bool(worker.lost) or (coordinator.heard_at or 0.0) > two_sessions_later)
                assert worker.lost == []
            finally:
                stopping.set()
                for thread in threads:
                    thread.join()

    asyncio.run(scenario())


def test_changes_of_the_work_wait_as_the_cost_of_the_last_rebalance_demands(bootstrap_servers: str):
    """Without the delay, each of many new connectors would cause a rebalance of the whole group."""

    async def scenario() -> None:
        async with a_cluster() as cluster:
            worker = cluster.worker("worker", bootstrap_servers)
            spans: list[tuple[float, float]] = []

            def costly() -> ConfiguredWork:
                began, until_s = time.monotonic(), time.thread_time() + 0.1
                while time.thread_time() < until_s:
                    pass
                spans.append((began, time.monotonic()))
                return cluster.configured

            worker.configured = costly
            await cluster.settled(worker)
            while len(spans) < 4:
                worker.member.rejoin()
                await asyncio.sleep(0.005)
            pauses = [later - end for (_, end), (later, _) in itertools.pairwise(spans)]
            assert min(pauses) > 0.1 * (1 - SHARE) / SHARE

    asyncio.run(scenario())


def test_an_eager_worker_brings_the_whole_group_down_to_its_protocol(bootstrap_servers: str):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            first = cluster.worker("first", bootstrap_servers)
            second = cluster.worker("second", bootstrap_servers)
            await cluster.settled(first, second)
            eager = cluster.worker("eager", bootstrap_servers, protocol=ConnectProtocol.EAGER)
            # The leader answers a protocol mismatch with a failed assignment; workers then read the config topic and
            # rejoin.
            await until(lambda: bool(eager.memberships) and eager.memberships[0].assignment.failed)
            for worker in cluster.workers:
                worker.member.rejoin()
            await cluster.settled(first, second, eager)
            assert first.memberships[-1].protocol is ConnectProtocol.EAGER
            eager.runs = frozenset()
            await eager.member.close()
            await until(lambda: second.memberships[-1].protocol is ConnectProtocol.SESSIONED)
            await cluster.settled(first, second)

    asyncio.run(scenario())


def test_a_leader_that_lags_behind_a_worker_assigns_nothing(bootstrap_servers: str):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            leader = cluster.worker("leader", bootstrap_servers)
            await cluster.settled(leader)
            runs = leader.runs
            ahead = cluster.worker("ahead", bootstrap_servers)
            ahead.config_offset = 5
            ahead.member.rejoin()
            await until(lambda: bool(ahead.memberships) and ahead.memberships[-1].assignment.config_offset == 5)
            assert ahead.memberships[-1].assignment.failed
            await until(lambda: leader.memberships[-1].assignment.failed)
            assert runs >= leader.runs
            cluster.configured = ConfiguredWork(config_offset=5, task_counts=WORK)
            leader.config_offset = 5
            leader.member.rejoin()
            await cluster.settled(leader, ahead)
            assert not ahead.memberships[-1].assignment.failed

    asyncio.run(scenario())


def test_a_group_of_consumers_is_not_one_of_workers(bootstrap_servers: str, topic: str):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": cluster.group_id})
            consumer.subscribe([topic])
            try:
                while not consumer.assignment():
                    await asyncio.to_thread(consumer.poll, 0.1)
                worker = cluster.worker("worker", bootstrap_servers)
                await until(lambda: bool(worker.failures))
                assert worker.member.state is MemberState.FAILED
                (error,) = worker.failures
                assert isinstance(error, BrokerRefusedError)
                assert cluster.group_id in str(error)
            finally:
                consumer.close()

    asyncio.run(scenario())


def test_a_worker_whose_leader_code_fails_is_not_a_member(bootstrap_servers: str):
    def fail() -> ConfiguredWork:
        raise ValueError("no snapshot")

    async def scenario() -> None:
        async with a_cluster() as cluster:
            worker = cluster.worker("worker", bootstrap_servers)
            await cluster.settled(worker)
            worker.configured = fail
            worker.member.rejoin()
            await until(lambda: bool(worker.failures))
            assert worker.runs == frozenset()
            assert worker.lost == ["no snapshot"]

    asyncio.run(scenario())


def test_a_worker_waits_for_brokers_and_can_be_closed_meanwhile():
    async def scenario() -> None:
        async with a_cluster() as cluster:
            worker = cluster.worker("worker", "127.0.0.1:1")
            await until(lambda: worker.member.coordinator_unknown_for > 0.5)
            assert worker.member.rebalancing
            assert worker.failures == []

    asyncio.run(scenario())


def test_close_ends_the_thread_and_its_sockets(bootstrap_servers: str):
    async def scenario() -> None:
        async with a_cluster() as cluster:
            workers = [cluster.worker(name, bootstrap_servers) for name in ("first", "second")]
            await cluster.settled(*workers)
            for worker in workers:
                worker.runs = frozenset()
            name = f"fencepost-group-{cluster.group_id}"
            assert [thread.name for thread in threading.enumerate()].count(name) == 2
            await cluster.close()
            await until(lambda: all(thread.name != name for thread in threading.enumerate()))

    asyncio.run(scenario())
    # An open socket warns when it is garbage-collected, and warnings are errors here.
    gc.collect()
