"""Workers of one group with different internal topics: no worker starts a task that would miss its offsets."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes import wait_for
from tests.support.running_tasks import RunningTasks, running
from tests.support.workers import Group, Worker


def _reasons(worker: Worker, connector: str, worker_id: str) -> list[str]:
    """Why a worker's tasks of a connector wait, according to another worker's status."""
    tasks = worker.get(f"/connectors/{connector}/status")["tasks"]
    return [task.get("trace", "") for task in tasks if (task["worker_id"], task["state"]) == (worker_id, "UNASSIGNED")]


def test_a_worker_with_another_offsets_topic_starts_no_task(tmp_path: Path, bootstrap_servers: str) -> None:
    """Both workers name it; its tasks wait, and start once its topic is corrected. No record is lost or doubled."""
    group = Group(tmp_path, bootstrap_servers)
    tasks = RunningTasks(group, bootstrap_servers, count=2)
    other = f"{group.id}-others"
    with group.worker() as leader:
        tasks.create(leader)
        tasks.wait_until_shared(leader)
        with group.worker(offset_storage_topic=other) as wrong:
            wait_for(
                lambda: _reasons(leader, tasks.name, wrong.id), what="a task waits at the worker that was set wrong"
            )
            [reason] = _reasons(leader, tasks.name, wrong.id)
            named = f"{wrong.url}/ has offset.storage.topic={other} (the leader: {group.id}-offsets)"
            assert named in reason
            for worker in (leader, wrong):
                worker.process.wait_for_output(named)
                root = worker.get("/")
                assert root["workers_with_other_topics"] == [f"{wrong.url}/"]
                assert root["workers_breaking_exactly_once"] == [f"{wrong.url}/"]
            assert running(leader, tasks.name) == {leader.id: 1}
        tasks.wait_until_shared(leader)
        with group.worker(wrong.port) as mended:
            tasks.wait_until_shared(leader, mended)
            assert leader.get("/")["workers_with_other_topics"] == []
            tasks.assert_exactly_once(leader)


def test_a_worker_whose_topics_differ_waits_after_the_others_left(tmp_path: Path, bootstrap_servers: str) -> None:
    """It cannot know that its topics are right: it starts tasks once a member agrees, or after its own restart."""
    group = Group(tmp_path, bootstrap_servers)
    tasks = RunningTasks(group, bootstrap_servers, count=2)
    with group.worker() as leader:
        tasks.create(leader)
        tasks.wait_until_shared(leader)
        with group.worker(offset_storage_topic=f"{group.id}-others") as wrong:
            wait_for(lambda: _reasons(leader, tasks.name, wrong.id), what="a task waits")
            leader.process.kill()
            wait_for(lambda: len(_reasons(wrong, tasks.name, wrong.id)) == tasks.count, what="all tasks wait")
            assert wrong.get("/")["workers_breaking_exactly_once"] == [f"{wrong.url}/"]
        with group.worker(leader.port) as again:
            tasks.wait_until_shared(again)
            tasks.assert_exactly_once(again)


def test_a_worker_with_another_config_topic_refuses_requests(tmp_path: Path, bootstrap_servers: str) -> None:
    group = Group(tmp_path, bootstrap_servers)
    tasks = RunningTasks(group, bootstrap_servers, count=2)
    other = f"{group.id}-others"
    with group.worker() as leader:
        tasks.create(leader)
        tasks.wait_until_shared(leader)
        with group.starting(config_storage_topic=other) as wrong:
            wait_for(
                lambda: _reasons(leader, tasks.name, wrong.id), what="a task waits at the worker that was set wrong"
            )
            named = f"{wrong.url}/ has config.storage.topic={other} (the leader: {group.id}-configs)"
            assert named in _reasons(leader, tasks.name, wrong.id)[0]
            answer = wrong.request("PUT", "/connectors/mm/config", {"connector.class": "FileStreamSource"})
            assert (answer.status, named in answer.body["message"]) == (500, True)
            health = wrong.request("GET", "/health")
            assert (health.status, named in health.body["message"]) == (503, True)
        tasks.wait_until_shared(leader)
        assert set(leader.get("/connectors")) == {tasks.name}
        tasks.assert_exactly_once(leader)
