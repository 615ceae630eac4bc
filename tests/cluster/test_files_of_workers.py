"""Files that workers of a group may read: not their own ones, and the same ones on each worker."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import wait_for
from tests.support.topics import unique
from tests.support.workers import Answer, Group, Worker, WorkerApi

USERS = "admin=a-password\n"


def stream(file: Path | str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": unique("files"), "file": str(file)}


def asked(worker: WorkerApi, config: dict[str, str]) -> list[str]:
    """The errors of the property `file` that a worker's validation returns."""
    path = f"/connector-plugins/{config['connector.class']}/config/validate"
    answer = worker.request("PUT", path, {"name": "asked", **config})
    assert answer.status == 200, answer
    return [error for found in answer.body["configs"] if found["value"]["name"] == "file"
            for error in found["value"]["errors"]]  # fmt: skip


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, broker: Any) -> Iterator[tuple[Worker, Path]]:
    """A worker with a password whose connectors may read any file, and the folder of its own files."""
    folder = tmp_path_factory.mktemp("own")
    users = folder / "rest-users"
    users.write_text(USERS)
    (folder / "credentials").mkdir()
    (folder / "credentials" / "id").write_text("1")
    group = Group(
        folder,
        broker.bootstrap_servers,
        rest_basic_auth_credentials_file=str(users),
        config_providers="directory",
        config_providers_directory_class="DirectoryConfigProvider",
        config_providers_directory_param_allowed_paths=str(folder / "credentials"),
    )
    with group.worker() as worker:
        yield worker, folder


def put(worker: Worker, config: dict[str, str]) -> Answer:
    credentials = base64.b64encode(USERS.strip().replace("=", ":").encode()).decode()
    headers = {"Authorization": f"Basic {credentials}"}
    return worker.request("PUT", f"/connectors/{unique('own')}/config", config, headers)


@pytest.mark.parametrize("kind", ["as it is", "link", "hard link"])
@pytest.mark.parametrize("name", ["worker-*.properties", "rest-users", "credentials/id"])
def test_a_request_reads_no_file_of_the_worker(
    locked: tuple[Worker, Path], tmp_path: Path, name: str, kind: str
) -> None:
    worker, folder = locked
    (own,) = folder.glob(name)
    path = own if kind == "as it is" else tmp_path / "other"
    if kind == "link":
        path.symlink_to(own)
    elif kind == "hard link":
        path.hardlink_to(own)

    refused = put(worker, stream(path))

    assert refused.status == 400, refused
    assert f"The file {path} may not be read: it is one of the worker's own" in refused.body["message"]


def test_a_request_does_not_read_the_environment_of_the_worker(locked: tuple[Worker, Path]) -> None:
    refused = put(locked[0], stream("/proc/self/environ"))
    assert refused.status == 400, refused
    assert "environment" in refused.body["message"]


def test_workers_of_different_directories_agree_on_the_files(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group(tmp_path, bootstrap_servers)
    del group.settings["fencepost.files.allowed.paths"]
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "orders").write_text("an order\n")

    monkeypatch.chdir(folders[0])
    with group.worker(forked=False) as one:
        assert asked(one, stream(folders[0] / "orders")) == []
        monkeypatch.chdir(folders[1])
        with group.worker(forked=False) as two:
            workers = {one: two, two: one}
            for worker, other in workers.items():
                wait_for(lambda: asked(worker, stream("orders")), what="the worker knows the other one")  # noqa: B023 - called at once
                for file in (*(folder / "orders" for folder in folders), "orders"):
                    created = worker.request("PUT", f"/connectors/{unique('c')}/config", stream(file))
                    assert created.status == 400, (file, created)
                (error,) = asked(worker, stream(folders[one is not worker] / "orders"))
                assert f"the worker {other.url}/, which may run the connector's tasks" in error
                assert f"has the working directory {folders[worker is one]}" in error
        wait_for(lambda: not asked(one, stream(folders[0] / "orders")), what="the other worker has left")
