"""Several workers that share connectors and tasks, as separate processes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.errors import ProducerFencedError
from fencepost.kafka.producer.transaction import ProducerIdentity
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.processes import wait_for
from tests.support.running_tasks import RunningTasks, running
from tests.support.sequence_source import properties, seqs
from tests.support.topics import unique
from tests.support.workers import Group, Worker
from tests.support.writing import open_producer, producer_config, write_in_transaction


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: Any) -> Group:
    # At-least-once tasks write nothing twice if they can stop gracefully, so slow machines get time for it.
    patient = {"task_shutdown_graceful_timeout_ms": "60000", "offset_flush_timeout_ms": "60000"}
    # A worker that is suspended for a while stays in the group.
    patient["session_timeout_ms"] = "60000"
    return Group(tmp_path_factory.mktemp("group"), broker.bootstrap_servers, **patient)


@pytest.fixture(scope="module")
def pair(group: Group) -> Iterator[tuple[Worker, Worker]]:
    """Two workers that are never stopped; the first one is the leader."""
    with group.workers(2) as (leader, follower):
        yield leader, follower


@pytest.fixture
def name(pair: tuple[Worker, Worker]) -> Iterator[str]:
    """A connector name; the connector is deleted at the end."""
    name = unique("connector")
    yield name
    pair[1].request("DELETE", f"/connectors/{name}")


def create(worker: Worker, name: str, topic: str, tasks: int, limit: int) -> None:
    config = properties(name, topic, {"tasks.max": tasks, "limit": limit, "messages.per.poll": 5})
    answer = worker.request("POST", "/connectors", {"name": name, "config": config})
    assert answer.status == 201, answer


def assert_all(bootstrap_servers: str, topic: str, name: str, tasks: int, limit: int) -> None:
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= tasks * limit, what="everything is written")
    found = values(read_topic(bootstrap_servers, topic))
    for task in range(tasks):
        assert seqs(found, name, task) == list(range(1, limit + 1))
    assert_exactly_once(found, [f"value-{name}-{t}-{n}".encode() for t in range(tasks) for n in range(1, limit + 1)])


def test_late_reports_about_a_deleted_task_are_removed(
    pair: tuple[Worker, Worker], group: Group, name: str, topic: str, bootstrap_servers: str
) -> None:
    """Apache's workers report UNASSIGNED when they revoke a task, and also show statuses of deleted tasks."""
    worker = pair[1]
    create(worker, name, topic, tasks=1, limit=5)
    worker.wait_for_states(name, "RUNNING", "RUNNING")
    late = {"state": "UNASSIGNED", "trace": None, "worker_id": "other:8083", "generation": 1}
    keys = {f"status-task-{name}-7".encode(), f"status-task-gone-{name}-0".encode()}
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key in keys:
        producer.produce(f"{group.id}-status", json.dumps(late), key)
    assert producer.flush(60) == 0

    def removed() -> bool:
        # The group rebalances.
        for request in "stop", "resume":
            wait_for(lambda request=request: worker.request("PUT", f"/connectors/{name}/{request}").status < 300)
        return not keys & group.status_keys(name)

    wait_for(removed, what="the statuses of what is gone are removed")
    worker.wait_for_states(name, "RUNNING", "RUNNING")


def test_any_worker_takes_requests_and_tasks_are_shared(
    pair: tuple[Worker, Worker], name: str, topic: str, bootstrap_servers: str
) -> None:
    leader, follower = pair

    create(follower, name, topic, tasks=4, limit=100)

    wait_for(lambda: sorted(running(leader, name).values()) == [2, 2], what="each worker has two tasks")
    assert_all(bootstrap_servers, topic, name, tasks=4, limit=100)
    for worker in pair:
        assert worker.request("POST", f"/connectors/{name}/restart").status == 204
        for task in range(4):
            assert worker.request("POST", f"/connectors/{name}/tasks/{task}/restart").status == 204
    wait_for(lambda: sorted(running(follower, name).values()) == [2, 2], what="all run again")
    assert follower.request("PUT", f"/connectors/{name}/stop").status == 204
    for worker in pair:
        worker.wait_for_states(name, "STOPPED")
    reset = follower.request("DELETE", f"/connectors/{name}/offsets")
    assert reset.status == 200, reset
    assert leader.get(f"/connectors/{name}/offsets") == {"offsets": []}


def test_a_task_is_not_restarted_while_a_rebalance_is_due(pair: tuple[Worker, Worker], name: str, topic: str) -> None:
    leader, follower = pair
    create(leader, name, topic, tasks=2, limit=10)
    wait_for(lambda: sorted(running(leader, name).values()) == [1, 1], what="each worker has a task")
    tasks = leader.get(f"/connectors/{name}/status")["tasks"]
    (task,) = (task["id"] for task in tasks if task["worker_id"] == leader.id)
    restart, another = f"/connectors/{name}/tasks/{task}/restart", unique("connector")

    follower.process.signal(signal.SIGSTOP)
    try:
        create(leader, another, topic, tasks=1, limit=1)

        def refused() -> bool:
            answer = leader.request("POST", restart)
            return answer.status == 409 and "a rebalance is pending: ask again soon" in answer.body["message"]

        wait_for(refused, what="the group waits for the worker that is asleep")
    finally:
        follower.process.signal(signal.SIGCONT)
    wait_for(lambda: leader.request("POST", restart).status == 204, what="the work is shared out")
    assert leader.request("DELETE", f"/connectors/{another}").status == 204


def test_a_level_of_a_log_is_set_on_all_workers_at_once(pair: tuple[Worker, Worker]) -> None:
    leader, follower = pair
    path = f"/admin/loggers/{unique('logger')}"
    assert follower.request("PUT", f"{path}?scope=cluster", {"level": "WARN"}).status == 204
    for worker in pair:
        wait_for(lambda worker=worker: (worker.get(path) or {}).get("level") == "WARN", what="the level is set")
    assert leader.request("PUT", path, {"level": "ERROR"}).status == 200
    assert follower.get(path)["level"] == "WARN"


def test_any_worker_shows_open_transactions_and_commits_of_all_tasks(
    pair: tuple[Worker, Worker], group: Group, name: str, topic: str
) -> None:
    leader, follower = pair
    open_for_long = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": 400_000}
    config = properties(name, topic, {"tasks.max": 2, "limit": 30, "messages.per.poll": 5, **open_for_long})
    config["producer.override.transaction.timeout.ms"] = "600000"
    assert follower.request("POST", "/connectors", {"name": name, "config": config}).status == 201

    def tasks(worker: Worker) -> list[dict[str, Any]]:
        body = worker.get(f"/connectors/{name}/transactions") or {"tasks": []}
        return list(body["tasks"])

    def fully_open(worker: Worker) -> bool:
        found = tasks(worker)
        return [(task["state"], task["records"]) for task in found] == [("IN_TRANSACTION", 30)] * 2

    for worker in pair:
        wait_for(lambda worker=worker: fully_open(worker), what="both tasks have all of their records open")
    shown = tasks(leader)
    assert shown == tasks(follower)
    assert {task["worker_id"] for task in shown} == {leader.id, follower.id}
    assert [task["transactional_id"] for task in shown] == [f"{group.id}-{name}-{n}" for n in (0, 1)]
    assert all(task["open_since"] > 0 and task["bytes"] > 0 and task["last_commit"] is None for task in shown)
    with Admin(producer_config(group.settings["bootstrap.servers"]).client) as admin:
        listed = {transaction.transactional_id: transaction.identity for transaction in admin.open_transactions()}
    for task in shown:
        assert listed[task["transactional_id"]] == ProducerIdentity(task["producer_id"], task["producer_epoch"])

    assert follower.request("PUT", f"/connectors/{name}/pause").status == 202
    leader.wait_for_states(name, "PAUSED", "PAUSED", "PAUSED")
    for number, task in enumerate(tasks(follower)):
        assert (task["state"], task["open_since"], task["records"]) == ("READY", None, 0)
        offset = {"partition": {"task.id": f"{name}-{number}"}, "offset": {"saved": 30}}
        assert (task["last_commit"]["records"], task["last_commit"]["offsets"]) == (30, [offset])
        assert task["last_commit"]["at"] >= shown[number]["open_since"]
    assert leader.request("GET", "/connectors/no-such/transactions").status == 404


def test_tasks_start_after_the_tasks_of_all_workers_were_fenced(
    pair: tuple[Worker, Worker], name: str, topic: str, bootstrap_servers: str
) -> None:
    _, follower = pair
    create(follower, name, topic, tasks=3, limit=400)
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 50, what="they are at work")

    config = properties(name, topic, {"tasks.max": 4, "limit": 400, "messages.per.poll": 5})
    assert follower.request("PUT", f"/connectors/{name}/config", config).status == 200

    wait_for(lambda: sorted(running(follower, name).values()) == [2, 2], what="four tasks run")
    assert_all(bootstrap_servers, topic, name, tasks=4, limit=400)


def task_counts(bootstrap_servers: str, group: Group, name: str) -> list[int]:
    """The values of a connector's task count records."""
    written = read_topic(bootstrap_servers, f"{group.id}-configs")
    return [json.loads(r.value)["task-count"] for r in written if r.key == f"tasks-fencing-{name}".encode() and r.value]


def wait_for_task_counts(bootstrap_servers: str, group: Group, name: str, *counts: int) -> None:
    """Wait for the task counts that show the restart of a changed connector's tasks: until then old tasks run."""
    wait_for(lambda: task_counts(bootstrap_servers, group, name) == list(counts), what=f"the task counts are {counts}")


def test_earlier_tasks_are_fenced_when_a_connector_changes_its_guarantee(
    pair: tuple[Worker, Worker], group: Group, bootstrap_servers: str
) -> None:
    leader, follower = pair
    tasks = RunningTasks(group, bootstrap_servers, count=2)
    tasks.create(leader)
    tasks.wait_until_shared(leader, follower)
    tasks.change(follower, support="disabled")
    wait_for_task_counts(bootstrap_servers, group, tasks.name, 2, 0)
    tasks.wait_until_shared(leader, follower)
    tasks.change(leader, support="required")
    wait_for_task_counts(bootstrap_servers, group, tasks.name, 2, 0, 2)
    tasks.wait_until_shared(leader, follower)
    tasks.assert_exactly_once(follower)

    with ExitStack() as stack:
        former = [
            stack.enter_context(open_producer(producer_config(bootstrap_servers), f"{group.id}-{tasks.name}-{task}"))
            for task in range(2)
        ]
        for producer in former:
            producer.begin_transaction()
            write_in_transaction(producer, tasks.topic, [b"of a task that was believed dead"])
        tasks.change(leader, support="disabled")
        assert leader.request("PUT", f"/connectors/{tasks.name}/resume").status == 202
        tasks.wait_until_shared(leader, follower)
        for producer in former:
            with pytest.raises(ProducerFencedError):
                producer.commit_transaction()
    tasks.assert_exactly_once(leader)
    assert task_counts(bootstrap_servers, group, tasks.name) == [2, 0, 2, 0]
    assert leader.request("DELETE", f"/connectors/{tasks.name}").status == 204


def test_a_request_is_forwarded_to_the_leader_without_a_loop(pair: tuple[Worker, Worker]) -> None:
    leader, follower = pair
    for query in ("", "?forward=true"):
        answer = follower.request("DELETE", f"/connectors/missing{query}")
        assert (answer.status, answer.body["message"]) == (404, "There is no connector missing")
    # forward=false means that the request was forwarded twice. The follower knows no better leader.
    answer = follower.request("DELETE", "/connectors/missing?forward=false")
    assert answer.status == 409
    assert "ask again soon" in answer.body["message"]
    assert leader.request("DELETE", "/connectors/missing?forward=false").status == 404


def test_without_exactly_once_support_tasks_deliver_at_least_once(
    group: Group, topic: str, bootstrap_servers: str
) -> None:
    name = unique("connector")
    ours = Group(group.folder, bootstrap_servers, exactly_once_source_support="disabled")
    with ours.worker(connect_protocol="eager") as worker:
        config = properties(name, topic, {"exactly.once.support": "requested", "limit": 200})
        assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201
        worker.wait_for_states(name, "RUNNING", "RUNNING")
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) == 200, what="all records are written")
        assert worker.request("PUT", f"/connectors/{name}/stop").status == 204
        worker.wait_for_states(name, "STOPPED")
        (offset,) = worker.get(f"/connectors/{name}/offsets")["offsets"]
        assert offset["offset"] == {"saved": 200}, "a stop flushes the offsets"
    assert [record.offset for record in read_topic(bootstrap_servers, topic)] == list(range(200)), "no markers"
