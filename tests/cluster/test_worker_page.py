"""The page at /ui of a group: each worker shows the tasks of all."""

from __future__ import annotations

from pathlib import Path

from fencepost.version import __version__
from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.topics import unique
from tests.support.workers import Group


def test_each_worker_shows_the_tasks_of_all(tmp_path: Path, bootstrap_servers: str, topic: str) -> None:
    group = Group(tmp_path, bootstrap_servers)
    name = unique("connector")
    with group.worker() as one, group.worker() as other:
        body = {"name": name, "config": properties(name, topic, {"limit": 5, "tasks.max": 2})}
        assert one.request("POST", "/connectors", body).status == 201
        one.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING")
        for worker in (one, other):
            row = wait_for(
                lambda worker=worker: (
                    (found := worker.request("GET", "/ui/api/overview").body["rows"].get(name))
                    and found["records"] == 10
                    and found
                ),
                what="all records are counted",
            )
            assert {task["worker_id"] for task in row["tasks"]} == {f"127.0.0.1:{each.port}" for each in (one, other)}
            tasks = worker.request("GET", f"/ui/api/connectors/{name}").body["tasks"]
            assert [task["records"] for task in tasks] == [5, 5]


def test_members_that_run_nothing_are_shown_as_well(tmp_path: Path, bootstrap_servers: str) -> None:
    group = Group(tmp_path, bootstrap_servers)
    with group.worker() as one, group.worker() as other:
        ids = {f"127.0.0.1:{each.port}" for each in (one, other)}
        for worker in (one, other):
            workers = wait_for(
                lambda worker=worker: (
                    (found := worker.request("GET", "/ui/api/overview").body["workers"]).keys() == ids and found
                ),
                what="both members are shown",
            )
            assert {(each["tasks"], each["connectors"], each["version"]) for each in workers.values()} == {
                (0, 0, __version__)
            }
            assert all(each["started"] > 0 for each in workers.values())
