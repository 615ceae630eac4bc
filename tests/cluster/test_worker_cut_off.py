"""A worker that loses its network, and one that is away for a moment: each task has at most one owner at any time."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.fault_proxy import FaultProxy, Link
from tests.support.processes import wait_for
from tests.support.running_tasks import RunningTasks
from tests.support.workers import Group

RUNNING_TASKS = "kafka_connect_worker_task_count"


def test_a_disconnected_worker_stops_its_work_and_rejoins(
    tmp_path: Path, bootstrap_servers: str, fault_proxy: FaultProxy
) -> None:
    group = Group(tmp_path, bootstrap_servers)
    tasks = RunningTasks(group, bootstrap_servers, count=6)
    with ExitStack() as stack:
        leader, second = stack.enter_context(group.workers(2))
        # A task that waits for an answer can stop only after its request has timed out.
        cut = stack.enter_context(group.worker(bootstrap_servers=fault_proxy.address, request_timeout_ms="5000"))
        tasks.create(second)
        tasks.wait_until_shared(leader, second, cut)
        wait_for(lambda: cut.metric(RUNNING_TASKS) == 2, what="it counts its tasks")

        fault_proxy.to_broker = fault_proxy.to_client = Link.DROP
        tasks.wait_until_shared(leader, second)
        wait_for(lambda: cut.metric(RUNNING_TASKS) == 0, what="it has stopped its tasks")
        told = f"The coordinator of group {group.id} has not been reached"
        wait_for(lambda: told in (health := cut.request("GET", "/health")).body["message"] and health.status == 503)
        rows = cut.get(f"/connectors/{tasks.name}/status")["tasks"]
        assert {row["state"] for row in rows} == {"UNASSIGNED"}
        assert {row.get("trace", "").partition(". ")[0] for row in rows} == {
            "", *(f"The worker {one.id} last reported RUNNING" for one in (leader, second))
        }  # fmt: skip
        assert cut.get(f"/connectors/{tasks.name}/tasks/{_first_of(cut.id, rows)}/status")["state"] == "UNASSIGNED"
        assert cut.get("/")["workers_breaking_exactly_once"] is None
        # Requests that come meanwhile wait, and are done later.
        requests = stack.enter_context(ThreadPoolExecutor())
        listed = requests.submit(cut.request, "GET", "/connectors")
        resumed = requests.submit(cut.request, "PUT", f"/connectors/{tasks.name}/resume")

        fault_proxy.heal()
        fault_proxy.reset()
        tasks.wait_until_shared(leader, second, cut)
        cut.wait_until_healthy()
        assert (listed.result().status, listed.result().body) == (200, [tasks.name])
        assert resumed.result().status == 202
        assert cut.get("/")["workers_breaking_exactly_once"] == []
        tasks.assert_exactly_once(second)


def _first_of(worker: str, rows: list[dict[str, Any]]) -> int:
    return next(int(row["id"]) for row in rows if row["worker_id"] == worker)


def test_a_worker_that_returns_in_time_gets_its_delayed_work(tmp_path: Path, bootstrap_servers: str) -> None:
    group = Group(tmp_path, bootstrap_servers, scheduled_rebalance_max_delay_ms="300000")
    tasks = RunningTasks(group, bootstrap_servers, count=4)
    with ExitStack() as stack:
        leader, follower = stack.enter_context(group.workers(2))
        tasks.create(follower)
        tasks.wait_until_shared(leader, follower)
        owners = tasks.owners(leader)

        follower.process.signal(signal.SIGTERM)
        assert follower.process.wait() == 0
        task = next(task for task, owner in owners.items() if owner == follower.id)
        # The leader delays the reassignment: no worker has the task, so it cannot be restarted.
        restart = f"/connectors/{tasks.name}/tasks/{task}/restart"

        def held_back() -> bool:
            # Before the leader knows that the follower left, it answers 409 because the follower cannot be reached.
            refused = leader.request("POST", restart)
            return refused.status == 409 and "ask again soon" in refused.body["message"]

        wait_for(held_back, what="the leader knows that it left")

        again = stack.enter_context(group.starting(follower.port))
        tasks.wait_until_shared(leader, again)
        assert tasks.owners(leader) == owners
        tasks.assert_exactly_once(leader)
