"""Fencing rounds by a group's leader: their number, their failures, and their messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from fencepost.api.source import TASK_ADDITIONS
from fencepost.connectors import distribution
from fencepost.connectors.distribution import distribute
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.local_workers import LocalWorkers
from tests.support.processes import wait_for
from tests.support.running_tasks import running
from tests.support.sequence_source import SEEN, properties, seqs
from tests.support.shared_sequences import LIMITS, STARTS, SharedSequencesConnector
from tests.support.topics import unique
from tests.support.workers import Answer, Group, WorkerApi
from tests.support.writing import open_producer, producer_config

ROUNDS = "fencepost_fencing_rounds_total"
FAILURES = "fencepost_fencing_failures_total"


class Pair:
    """A leader whose traffic goes through the proxy, and a follower. Both answer often enough to stay in the group."""

    def __init__(self, group: Group, leader: WorkerApi, follower: WorkerApi, bootstrap_servers: str) -> None:
        self.group = group
        self.leader = leader
        self.follower = follower
        self.bootstrap_servers = bootstrap_servers

    def create(self, name: str, topic: str, **extra: Any) -> dict[str, str]:
        """Create a connector whose tasks write some records and then wait."""
        config = properties(name, topic, {"tasks.max": 2, "limit": 10, **extra})
        answer = self.follower.request("POST", "/connectors", {"name": name, "config": config})
        assert answer.status == 201, answer
        self.wait_until_written(name, topic, int(config["tasks.max"]), int(config["limit"]))
        return config

    def fence(self, name: str) -> Answer:
        """Request a fencing round from the leader, like a worker whose tasks start."""
        return self.group.internal(self.leader, "PUT", f"/connectors/{name}/fence")

    def stranger_as_leader(self) -> AbstractContextManager[TransactionalProducer]:
        """A producer that has just taken over the leader's transactional id."""
        return open_producer(producer_config(self.bootstrap_servers), f"connect-cluster-{self.group.id}")

    def wait_until_written(self, name: str, topic: str, tasks: int, limit: int) -> None:
        """Wait until all tasks run and have sent their records, each once."""
        wait_for(lambda: running(self.leader, name).total() == tasks, what=f"{name} runs")
        wait_for(lambda: len(read_topic(self.bootstrap_servers, topic)) >= tasks * limit, what="all is written")
        found = values(read_topic(self.bootstrap_servers, topic))
        for task in range(tasks):
            assert_exactly_once(seqs(found, name, task), range(1, limit + 1))

    def counts(self, name: str) -> list[int]:
        """The values of a connector's task count records."""
        return [
            json.loads(value)["task-count"]
            for key, value in self.group.config_records()
            if key == f"tasks-fencing-{name}"
        ]


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker, _session_proxy: FaultProxy
) -> Iterator[Pair]:
    assert _session_proxy.upstream in broker.nodes[0].place.ports.values()
    group = Group(tmp_path_factory.mktemp("fencing"), broker.bootstrap_servers, session_timeout_ms="60000")
    with LocalWorkers(group) as workers:
        leader, follower = workers.start(bootstrap_servers=_session_proxy.address), workers.start()
        assert leader.leads()
        yield Pair(group, leader, follower, broker.bootstrap_servers)


@pytest.fixture
def name(pair: Pair) -> Iterator[str]:
    """A connector name; the connector is deleted at the end."""
    name = unique("connector")
    yield name
    pair.follower.request("DELETE", f"/connectors/{name}")


def test_all_tasks_of_a_generation_on_all_workers_share_one_round(pair: Pair, name: str, topic: str) -> None:
    config = pair.create(name, topic, **{"tasks.max": 12})
    before = pair.leader.metric(ROUNDS)
    assert before is not None

    answer = pair.follower.request("PUT", f"/connectors/{name}/config", config | {"limit": "20"})

    assert answer.status == 200
    pair.wait_until_written(name, topic, tasks=12, limit=20)
    assert sorted(running(pair.leader, name).values()) == [6, 6]
    assert (pair.leader.metric(ROUNDS), pair.follower.metric(ROUNDS)) == (before + 1, 0)
    assert pair.counts(name) == [12, 12]
    assert pair.fence(name).status == 204
    assert pair.leader.metric(ROUNDS) == before + 1, "what is fenced is not fenced again"


def test_only_tasks_that_change_are_fenced_where_partitions_follow_configurations(
    pair: Pair, name: str, topic: str
) -> None:

    def wait_until_all_is_committed(tasks: int) -> None:
        def done() -> bool:
            shown = (pair.leader.get(f"/connectors/{name}/transactions") or {"tasks": []})["tasks"]
            written = len(read_topic(pair.bootstrap_servers, topic))
            return [task["state"] for task in shown] == ["READY"] * tasks and written >= 6 * LIMITS[name]

        wait_for(done, what=f"{tasks} tasks have committed all that there is")

    def producers() -> list[tuple[int, int]]:
        shown = pair.leader.get(f"/connectors/{name}/transactions")["tasks"]
        return [(task["producer_id"], task["producer_epoch"]) for task in shown]

    LIMITS[name] = 20
    config = properties(name, topic, {"tasks.max": 4, "partitions": 6})
    config["connector.class"] = f"{SharedSequencesConnector.__module__}.{SharedSequencesConnector.__name__}"
    assert pair.follower.request("POST", "/connectors", {"name": name, "config": config}).status == 201
    wait_until_all_is_committed(tasks=4)
    before = producers()

    assert pair.follower.request("PUT", f"/connectors/{name}/config", config | {"tasks.max": "5"}).status == 200
    wait_for(lambda: len(STARTS[name]) >= 6, what="two tasks are started")
    wait_until_all_is_committed(tasks=5)

    after = producers()
    assert after[:3] == before[:3], "tasks that stay as they are write on under their epochs"
    assert after[3] > before[3]
    LIMITS[name] = 40
    wait_until_all_is_committed(tasks=5)
    assert sorted(STARTS[name]) == [[0], [1], [2], [3], [3, 4, 5], [4, 5]]
    assert pair.counts(name) == [4, 5]
    found = values(read_topic(pair.bootstrap_servers, topic))
    for number in range(6):
        assert_exactly_once(seqs(found, name, number), range(1, 41))


def test_a_new_file_restarts_only_tasks_of_a_file_source_that_change(
    pair: Pair, name: str, topic: str, tmp_path: Path
) -> None:
    def transactions() -> list[Any]:
        shown: list[Any] = (pair.leader.get(f"/connectors/{name}/transactions") or {"tasks": []})["tasks"]
        return shown

    def wait_until_written(lines: int) -> None:
        def done() -> bool:
            ready = [task["state"] for task in transactions()] == ["READY"] * 4
            return ready and len(read_topic(pair.bootstrap_servers, topic)) >= lines

        wait_for(done, what=f"4 tasks have committed {lines} lines")

    def files_and_producers() -> list[tuple[str, tuple[int, int]]]:
        configs = pair.leader.get(f"/connectors/{name}/tasks")
        producers = [(task["producer_id"], task["producer_epoch"]) for task in transactions()]
        return list(zip([task["config"]["task.files"] for task in configs], producers, strict=True))

    files = [tmp_path / str(number) for number in range(4)]
    for file in files:
        file.write_text("1\n2\n")
    config = {
        "name": name, "connector.class": "FileSource", "files": str(tmp_path / "*"), "format": "text", "topic": topic,
        "tasks.max": "4",
    }  # fmt: skip
    assert pair.follower.request("POST", "/connectors", {"name": name, "config": config}).status == 201
    wait_until_written(8)
    before = files_and_producers()

    paths = [str(file) for file in files]
    added = next(
        file
        for file in (tmp_path / f"new-{number}" for number in range(1000))
        if sum(map(list.__eq__, distribute(paths, 4), distribute([*paths, str(file)], 4))) == 3
    )
    added.write_text("1\n2\n")
    assert pair.follower.request("POST", f"/connectors/{name}/restart").status == 204
    wait_until_written(10)

    after = files_and_producers()
    assert [one[0] == other[0] for one, other in zip(before, after, strict=True)].count(True) == 3
    for (files_before, producer_before), (files_after, producer_after) in zip(before, after, strict=True):
        assert (files_before == files_after) == (producer_before == producer_after)
    for file in (*files, added):
        with file.open("a") as end:
            end.write("3\n")
    wait_until_written(15)
    assert sorted(value or b"" for value in values(read_topic(pair.bootstrap_servers, topic))) == sorted(
        [b"1", b"2", b"3"] * 5
    )


def test_a_new_file_restarts_no_task_of_a_file_source_with_many_files(
    pair: Pair, name: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "MANY", 1)
    files = [tmp_path / str(number) for number in range(40)]
    lines = []

    def append(file: Path) -> None:
        with file.open("a") as end:
            end.write(f"{len(lines)}\n")
        lines.append(str(len(lines)).encode())

    def wait_until_written() -> None:
        wait_for(lambda: len(read_topic(pair.bootstrap_servers, topic)) >= len(lines), what="all lines are committed")

    for file in files:
        append(file)
    config = {
        "name": name, "connector.class": "FileSource", "files": str(tmp_path / "*"), "format": "text", "topic": topic,
        "tasks.max": "4", "files.poll.interval.ms": "50",
    }  # fmt: skip
    assert pair.follower.request("POST", "/connectors", {"name": name, "config": config}).status == 201
    wait_until_written()
    wait_for(lambda: running(pair.leader, name).total() == 4, what=f"{name} runs")
    rounds = pair.leader.metric(ROUNDS) or 0

    for number in range(40, 45):
        files.append(tmp_path / str(number))
        append(files[-1])
        wait_until_written()
    for file in files:
        append(file)
    wait_until_written()
    assert pair.leader.metric(ROUNDS) == rounds
    configs = [task["config"] for task in pair.leader.get(f"/connectors/{name}/tasks")]
    assert "".join(given.get(TASK_ADDITIONS, "") for given in configs).count("\n") == 5

    # Each of these files is read by a task that got the file while it ran.
    renamed = [file.rename(f"{file}-renamed") for file in files[40:]]
    for file in renamed:
        append(file)
    wait_until_written()
    assert (pair.leader.metric(ROUNDS) or 0) > rounds
    assert pair.follower.request("POST", f"/connectors/{name}/restart?includeTasks=true").status == 202
    for file in (*files[:40], *renamed):
        append(file)
    wait_until_written()
    assert_exactly_once(values(read_topic(pair.bootstrap_servers, topic)), lines)


def test_a_round_is_cancelled_by_newer_task_configurations(
    pair: Pair, name: str, topic: str, fault_proxy: FaultProxy
) -> None:
    """The requester is answered 409, and no task count is recorded for tasks that must not run."""
    config = pair.create(name, topic)
    # Paused tasks request no fencing round, so the round under way is this test's.
    assert pair.leader.request("PUT", f"/connectors/{name}/pause").status == 202
    pair.leader.wait_for_states(name, "PAUSED", "PAUSED", "PAUSED")
    pair.group.put_task_configs(pair.leader, config, 2, limit="20")
    trap = fault_proxy.on_request(ApiKey.INIT_PRODUCER_ID, Act.HOLD)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pair.fence, name)
        trap.wait()
        pair.group.put_task_configs(pair.leader, config, 2, limit="30")
        trap.release()
        answer = waiting.result()

    assert answer.status == 409
    assert f"Connector {name} has got newer task configurations: ask again" in answer.body["message"]
    assert pair.counts(name) == [2]
    # The connector itself would replace task configurations that it did not return.
    assert pair.leader.request("PUT", f"/connectors/{name}/config", config | {"limit": "30"}).status == 200
    assert pair.leader.request("PUT", f"/connectors/{name}/resume").status == 202
    pair.wait_until_written(name, topic, tasks=2, limit=30)


def test_a_task_fails_with_the_reason_when_the_leader_cannot_write_its_task_count(
    pair: Pair, name: str, topic: str, fault_proxy: FaultProxy
) -> None:
    """Another producer takes over the leader's transactional id during the fencing round."""
    config = pair.create(name, topic, **{"task.restart.policy": "never"})
    trap = fault_proxy.on_request(ApiKey.INIT_PRODUCER_ID, Act.HOLD)
    pair.group.put_task_configs(pair.leader, config, 1, limit="20")
    trap.wait()
    with pair.stranger_as_leader():
        trap.release()
        pair.leader.wait_for_states(name, "RUNNING", "FAILED")
    (task,) = pair.leader.get(f"/connectors/{name}/status")["tasks"]
    assert f"The former tasks of connector {name} are not fenced" in task["trace"]
    said = f"The task count of connector {name} could not be written to the config topic {pair.group.id}-configs"
    assert said in task["trace"]
    assert "This can be retried; if it keeps failing, check the health of the Kafka cluster" in task["trace"]
    assert pair.counts(name) == [2]

    wait_for(lambda: pair.fence(name).status == 204, what="the leader may write again")
    assert pair.follower.request("POST", f"/connectors/{name}/tasks/0/restart").status == 204
    pair.wait_until_written(name, topic, tasks=1, limit=20)
    assert pair.counts(name) == [2, 1]


def test_a_fenced_leader_answers_that_a_retry_may_help_and_reclaims_leadership(
    pair: Pair, name: str, topic: str
) -> None:
    config = pair.create(name, topic)
    with pair.stranger_as_leader():
        changed = config | {"limit": "20"}
        answer = pair.follower.request("PUT", f"/connectors/{name}/config", changed)
        assert answer.status == 500
        assert f"The configuration of connector {name} could not be written" in answer.body["message"]
        assert "This can be retried" in answer.body["message"]
        assert pair.leader.get(f"/connectors/{name}/config") == config

    def accepted() -> bool:
        return pair.follower.request("PUT", f"/connectors/{name}/config", changed).status == 200

    wait_for(accepted, what="the same request is carried out")
    pair.wait_until_written(name, topic, tasks=2, limit=20)


def test_a_round_that_fails_for_a_retriable_reason_is_retried(
    pair: Pair, name: str, topic: str, fault_proxy: FaultProxy
) -> None:
    """The round fails for a retriable reason, and nobody sends a request."""
    config = pair.create(name, topic)
    before = pair.leader.metric(FAILURES)
    assert before is not None
    trap = fault_proxy.on_request(ApiKey.INIT_PRODUCER_ID, Act.HOLD)
    pair.group.put_task_configs(pair.leader, config, 1, limit="20")
    trap.wait()
    with pair.stranger_as_leader():
        trap.release()
        pair.wait_until_written(name, topic, tasks=1, limit=20)
    assert pair.counts(name) == [2, 1]
    assert pair.leader.metric(FAILURES) == before + 1


def test_the_requester_of_a_failed_round_gets_the_reason_and_retries(
    pair: Pair, name: str, topic: str, fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier tasks are not fenced in time; then another producer takes over the leader's transactional id."""
    config = pair.create(name, topic)
    # Paused tasks request no fencing round, so each round is this test's.
    assert pair.leader.request("PUT", f"/connectors/{name}/pause").status == 202
    pair.leader.wait_for_states(name, "PAUSED", "PAUSED", "PAUSED")
    pair.group.put_task_configs(pair.leader, config, 2, limit="20")
    with monkeypatch.context() as hasty:
        hasty.setitem(Admin.fence_producers.__kwdefaults__, "timeout_ms", 500)
        trap = fault_proxy.on_request(ApiKey.INIT_PRODUCER_ID, Act.HOLD)
        late = pair.fence(name)
        trap.release()
    trap = fault_proxy.on_request(ApiKey.INIT_PRODUCER_ID, Act.HOLD)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pair.fence, name)
        trap.wait()
        with pair.stranger_as_leader():
            trap.release()
            fenced = waiting.result()

    assert (late.status, fenced.status) == (500, 500)
    assert "could not be fenced within 500 ms" in late.body["message"]
    assert "Check the health of the brokers that hold __transaction_state" in late.body["message"]
    assert f"The task count of connector {name} could not be written" in fenced.body["message"]
    assert "This can be retried" in fenced.body["message"]
    assert pair.counts(name) == [2]
    wait_for(lambda: pair.fence(name).status == 204, what="the leader may write again")
    assert pair.counts(name) == [2, 2]


def test_a_task_that_is_fenced_repeatedly_fails_and_runs_after_a_restart(pair: Pair, name: str, topic: str) -> None:
    config = properties(name, topic, {"messages.per.poll": 5, "poll.ms": 40})
    assert pair.follower.request("POST", "/connectors", {"name": name, "config": config}).status == 201
    pair.leader.wait_for_states(name, "RUNNING", "RUNNING")
    task = f"/connectors/{name}/tasks/0"

    def failed() -> bool:
        return bool(pair.leader.get(f"{task}/status")["state"] == "FAILED")

    with Admin(ClientConfig((pair.bootstrap_servers,))) as stranger:
        while not failed():
            starts = SEEN[name].starts
            stranger.fence_producers([f"{pair.group.id}-{name}-0"]).all()
            wait_for(lambda starts=starts: SEEN[name].starts > starts or failed(), what="the task notices")
    said = f"Fenced: a newer instance of the task took over the transactional id {pair.group.id}-{name}-0"
    assert said in pair.leader.get(f"{task}/status")["trace"]
    written = len(read_topic(pair.bootstrap_servers, topic))

    assert pair.follower.request("POST", f"{task}/restart").status == 204
    wait_for(lambda: len(read_topic(pair.bootstrap_servers, topic)) > written + 50, what="the task goes on")
    found = seqs(values(read_topic(pair.bootstrap_servers, topic)), name)
    assert found == list(range(1, len(found) + 1))
