"""Offsets of FileSource that a user sets by REST: they lead to the file at their path, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.local_workers import LocalWorkers
from tests.support.topics import Topics, unique
from tests.support.workers import Group

_FIRST = "line 1\n"


def test_offsets_that_belong_to_another_file_are_refused(
    tmp_path: Path, bootstrap_servers: str, topics: Topics
) -> None:
    name, folder = unique("files"), tmp_path / "in"
    folder.mkdir()
    for letter in ("a", "b"):
        (folder / letter).write_text(f"{_FIRST}{letter}\n")
    path, other = f"{folder}/a", f"{folder}/b"
    config = {"connector.class": "FileSource", "files": f"{folder}/*", "format": "text", "topic": topics.create()}

    def given(*pairs: tuple[str, Any]) -> dict[str, Any]:
        return {"offsets": [{"partition": {"filename": file}, "offset": offset} for file, offset in pairs]}

    with LocalWorkers(Group(tmp_path, bootstrap_servers)) as workers:
        worker, offsets = workers.start(), f"/connectors/{name}/offsets"
        created = worker.request("POST", "/connectors", {"name": name, "config": config, "initial_state": "STOPPED"})
        assert created.status == 201, created
        position = {"position": len(_FIRST)}
        assert worker.request("PATCH", offsets, given((path, position), (other, position))).status == 200
        stored = worker.get(offsets)
        bound = {entry["partition"]["filename"]: entry["offset"] for entry in stored["offsets"]}

        def refused(file: str, offset: dict[str, Any]) -> str:
            answer = worker.request("PATCH", offsets, given((file, offset)))
            assert answer.status == 400, answer
            assert worker.get(offsets) == stored
            return str(answer.body["message"])

        assert f"{path} and {other} are the former and the present name" in refused(path, bound[other])
        assert f"give the offset of {path}" in refused(f"{folder}/./a", {"position": 0})
        assert "Offsets of files with format=text have the fields position, " in refused(path, {**position, "end": 7})
        assert worker.request("PATCH", offsets, stored).status == 200, "as GET shows them"

        Path(path).write_text(f"{_FIRST[::-1].strip()}\n")
        assert f"the offset of the file {path} belongs to another file" in refused(path, bound[path])
        assert worker.request("PATCH", offsets, given((path, position))).status == 200
        assert worker.get(offsets) != stored, "the offset has the identity of the present file"
