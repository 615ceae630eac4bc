"""The leader of a group dies while it creates or changes a connector: the next leader leaves nothing half done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy, Trap
from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.topics import Topics, unique
from tests.support.workers import Group, Worker

LIMIT = 20
TASKS = 2


class LeaderlessGroup:
    """Three workers, whose traffic with the broker all goes through one proxy, and whose leaders are killed."""

    def __init__(self, group: Group, stack: ExitStack) -> None:
        self.group = group
        self._stack = stack
        self.workers: list[Worker] = stack.enter_context(group.workers(3))
        # The first leader writes the session key. From then on, a wrong signature is answered 403, not 503, and no
        # record is written except by a test's request.
        wrong = {"X-Connect-Authorization": "bm8=", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
        wait_for(lambda: self.workers[0].request("PUT", "/connectors/any/fence", headers=wrong).status == 403)

    def kill_leader(self, leader: Worker) -> None:
        """Kill the leader, and start a worker in its place."""
        leader.process.kill()
        self.workers.remove(leader)
        self.workers.append(self._stack.enter_context(self.group.starting(leader.port)))

    def leader(self) -> Worker:
        """Wait until a worker leads, and return it."""
        return wait_for(lambda: next((one for one in self.workers if one.healthy() and one.leads()), None))

    def follower(self, leader: Worker) -> Worker:
        """Another worker that is in the group."""
        return wait_for(lambda: next((one for one in self.workers if one is not leader and one.healthy()), None))


@pytest.fixture(scope="module")
def leaderless(
    tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker, _session_proxy: FaultProxy
) -> Iterator[LeaderlessGroup]:
    assert _session_proxy.upstream in broker.nodes[0].place.ports.values()
    with ExitStack() as stack:
        yield LeaderlessGroup(Group(tmp_path_factory.mktemp("leader"), _session_proxy.address), stack)


@dataclass(frozen=True)
class Moment:
    """When the leader is killed, how the client's request is answered, and whether the connector exists then."""

    set_trap: Callable[[FaultProxy], Trap]
    status: int
    created: bool


# A creation has four transactions: the connector's configuration, the tasks' configurations, the record that they are
# complete, and the task count. It is answered after the first one.
MOMENTS = {
    "before the configuration is committed": Moment(
        lambda proxy: proxy.on_request(ApiKey.END_TXN, Act.HOLD), status=500, created=False
    ),
    "before it hears of the commit": Moment(
        lambda proxy: proxy.on_response(ApiKey.END_TXN, Act.HOLD), status=500, created=True
    ),
    "before the tasks are complete": Moment(
        lambda proxy: proxy.on_request(ApiKey.END_TXN, Act.HOLD, skip=2), status=201, created=True
    ),
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_a_creation_whose_leader_is_killed_is_done_completely_or_not(
    leaderless: LeaderlessGroup, fault_proxy: FaultProxy, topics: Topics, bootstrap_servers: str, moment: Moment
) -> None:
    name, topic = unique("connector"), topics.create()
    body = {"name": name, "config": properties(name, topic, {"tasks.max": TASKS, "limit": LIMIT})}
    leader = leaderless.leader()
    follower = leaderless.follower(leader)

    with ThreadPoolExecutor(1) as pool:
        trap = moment.set_trap(fault_proxy)
        answer = pool.submit(follower.request, "POST", "/connectors", body)
        trap.wait()
        leaderless.kill_leader(leader)
        successor = leaderless.leader()
        # The dead leader's last request arrives now, too late.
        trap.release()
    assert answer.result().status == moment.status
    assert (name in successor.get("/connectors")) == moment.created
    if not moment.created:
        assert successor.request("POST", "/connectors", body).status == 201

    for worker in leaderless.workers:
        worker.wait_until_healthy()
        worker.wait_for_states(name, *["RUNNING"] * (TASKS + 1))
    expected = [f"value-{name}-{task}-{seq}".encode() for task in range(TASKS) for seq in range(1, LIMIT + 1)]
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= len(expected), what="everything is written")
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), expected)


def test_a_fencing_round_whose_leader_is_killed_is_completed_by_the_next(
    leaderless: LeaderlessGroup, fault_proxy: FaultProxy, topics: Topics, bootstrap_servers: str
) -> None:
    """The earlier tasks are fenced, but the task count is not written yet."""
    name, topic = unique("connector"), topics.create()
    config = properties(name, topic, {"tasks.max": TASKS, "limit": LIMIT})
    leader = leaderless.leader()
    follower = leaderless.follower(leader)
    assert follower.request("POST", "/connectors", {"name": name, "config": config}).status == 201
    follower.wait_for_states(name, *["RUNNING"] * (TASKS + 1))
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= TASKS * LIMIT, what="the tasks have nothing to do")

    # The change has four transactions, too, and idle tasks have none.
    trap = fault_proxy.on_request(ApiKey.END_TXN, Act.HOLD, skip=3)
    assert follower.request("PUT", f"/connectors/{name}/config", config | {"limit": str(2 * LIMIT)}).status == 200
    trap.wait()
    leaderless.kill_leader(leader)
    successor = leaderless.leader()
    trap.release()

    for worker in leaderless.workers:
        worker.wait_until_healthy()
        worker.wait_for_states(name, *["RUNNING"] * (TASKS + 1))
    expected = [f"value-{name}-{task}-{seq}".encode() for task in range(TASKS) for seq in range(1, 2 * LIMIT + 1)]
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= len(expected), what="everything is written")
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), expected)
    records = read_topic(bootstrap_servers, f"{leaderless.group.id}-configs")
    counts = [record.value for record in records if record.key == f"tasks-fencing-{name}".encode()]
    assert counts == [b'{"task-count":2}'] * 2, "one for each generation"
    assert successor.get(f"/connectors/{name}/config") == config | {"limit": str(2 * LIMIT)}
