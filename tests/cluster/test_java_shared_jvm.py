"""Many Java connectors in one JVM."""

from __future__ import annotations

from pathlib import Path

from fencepost.embedded.java import find_java
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.java_connectors import Connectors
from tests.support.java_plugins import FILE_STREAM, plugin_path
from tests.support.java_runs import jvms
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

CONNECTORS = 20


def running(worker: Worker) -> list[str]:
    """The connectors that run with their task."""
    status = worker.get("/connectors?expand=status") or {}
    states = {name: one["status"] for name, one in status.items()}
    parts = {
        name: [one["connector"]["state"], *(task["state"] for task in one["tasks"])] for name, one in states.items()
    }
    return sorted(name for name, each in parts.items() if each == ["RUNNING", "RUNNING"])


def test_twenty_connectors_run_in_one_jvm_and_go_on_when_one_is_deleted(
    topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    topic, lines = topics.create(), []
    files = [tmp_path / f"{number}.txt" for number in range(CONNECTORS)]

    def write(text: str, to: list[Path]) -> None:
        for file in to:
            new = [f"{file.stem} {text} {line}" for line in range(50)]
            with file.open("a") as opened:
                opened.writelines(f"{line}\n" for line in new)
            lines.extend(new)

    def wait_for_all() -> None:
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= len(lines), what="all lines")
        assert_exactly_once(values(read_topic(bootstrap_servers, topic)), [line.encode() for line in lines])

    group = Group(tmp_path, bootstrap_servers, plugin_path=str(plugin_path(tmp_path, "file")))
    java = {"JAVA_HOME": str(find_java().home)}
    with group.starting(environment=java, fencepost_java_isolation="worker") as worker:
        worker.wait_until_healthy()
        connectors = Connectors(worker)
        write("before", files)
        config = {"connector.class": FILE_STREAM, "topic": topic, "exactly.once.support": "required"}
        names = [connectors.start({**config, "file": str(file)}) for file in files]
        wait_for(lambda: running(worker) == sorted(names), what="all connectors are RUNNING")
        wait_for_all()
        (jvm,) = jvms(worker.process.pid)
        assert worker.request("DELETE", f"/connectors/{names[0]}").status == 204
        wait_for(lambda: running(worker) == sorted(names[1:]), what="the deleted connector is gone")
        wait_for(lambda: not group.status_keys(names[0]), what="its task has ended")
        write("after", files[1:])
        with files[0].open("a") as unread:
            unread.write("a line after the deletion\n")
        wait_for_all()
        assert jvms(worker.process.pid) == [jvm]
        starts = [worker.process.output.count(f"Task {name}-0 is RUNNING") for name in names]
        assert starts == [1] * CONNECTORS
