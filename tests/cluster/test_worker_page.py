"""The page at /ui of a group: each worker shows the tasks of all workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.version import __version__
from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.topics import unique
from tests.support.workers import Group, WorkerApi


def test_the_log_of_each_worker_names_the_address_of_its_page(tmp_path: Path, bootstrap_servers: str) -> None:
    group = Group(tmp_path, bootstrap_servers)
    with group.worker() as worker:
        worker.process.wait_for_output(f"The page for browsers is at http://127.0.0.1:{worker.port}/ui ")


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


def test_each_worker_has_the_history_and_the_log_of_all(tmp_path: Path, bootstrap_servers: str, topic: str) -> None:
    group = Group(tmp_path, bootstrap_servers)
    name = unique("connector")
    with group.worker() as one, group.worker() as other:
        body = {"name": name, "config": properties(name, topic, {"limit": 5, "tasks.max": 2})}
        assert one.request("POST", "/connectors", body).status == 201
        one.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING")
        wait_for(
            lambda: _is_added_up(one, other, name), what="the history has the records of the tasks on both workers"
        )
        ids = {f"127.0.0.1:{each.port}" for each in (one, other)}
        for worker in (one, other):
            lines = wait_for(
                lambda worker=worker: (
                    (found := worker.request("GET", f"/ui/api/connectors/{name}/logs").body["logs"])
                    and {line["worker"] for line in found} == ids
                    and found
                ),
                what="both workers have logged something about the connector",
            )
            assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
            assert {line["task"] for line in lines} >= {0, 1}
        other.process.kill()
        assert one.request("GET", f"/ui/api/connectors/{name}/logs").status == 200
        assert one.request("GET", f"/ui/api/connectors/{name}/history").status == 200


def _is_added_up(one: WorkerApi, other: WorkerApi, name: str) -> bool:
    here = [_rates(worker, f"/ui/api/here/history?connector={name}") for worker in (one, other)]
    everywhere = [_rates(worker, f"/ui/api/connectors/{name}/history") for worker in (one, other)]
    return min(here) > 0 and everywhere == [pytest.approx(sum(here))] * 2


def _rates(worker: WorkerApi, path: str) -> float:
    return sum(rate for _, rate, _ in worker.request("GET", path).body["history"])


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
