"""Commands of `fencepost connectors` for a Java connector with two tasks, of which one fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli import main
from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import assert_exactly_once, read_topic
from tests.support.java_connectors import java_group_worker
from tests.support.java_plugins import HOSTILE, plugin_path
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("java")
    with java_group_worker(
        Group(folder, broker.bootstrap_servers, plugin_path=str(plugin_path(folder, "hostile")))
    ) as worker:
        yield worker


def test_fencepost_connectors_creates_it_and_restarts_one_task_or_the_failed_one(
    worker: Worker,
    name: str,
    *,
    topics: Topics,
    tmp_path: Path,
    bootstrap_servers: str,
    capsys: pytest.CaptureFixture[str],
):
    def command(*arguments: str) -> str:
        capsys.readouterr()
        assert main.run(["connectors", *arguments, "--url", worker.url]) == 0
        return capsys.readouterr().out

    def starts() -> list[int]:
        """How often each task has been started."""
        return [worker.process.output.count(f"Task {name}-{number} is RUNNING") for number in range(2)]

    topic, file = topics.create(), tmp_path / "config.json"
    # Only the first task that reaches the marker throws.
    config = {"behaviour": "throw in task.poll", "marker": str(tmp_path / "marker"), "task.restart.policy": "never"}
    config |= {"connector.class": HOSTILE, "topic": topic, "counters": "a,b", "tasks.max": "2", "name": name}
    file.write_text(json.dumps(config))

    assert command("create", str(file)) == f"Created {name}.\n"
    wait_for(lambda: sorted(worker.states(name)) == ["FAILED", "RUNNING", "RUNNING"], what="one task has failed")
    failed = worker.states(name).index("FAILED") - 1
    assert starts() == [1, 1]
    assert command("restart", name, "--tasks", "--only-failed") == f"Restarting {name}.\n"
    worker.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING")
    wait_for(lambda: starts()[failed] == 2, what="the failed task runs again")
    assert command("restart", name, "--tasks", "--only-failed") == f"Nothing of {name} has failed.\n"
    assert command("restart", name, "--task", str(1 - failed)) == f"Restarting task {1 - failed} of {name}.\n"
    wait_for(lambda: starts() == [2, 2], what="the other task runs again, too")
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 20, what="all numbers of both tasks")
    keys = [record.key for record in read_topic(bootstrap_servers, topic)]
    assert_exactly_once(keys, [b"%s%d" % (counter, number) for counter in (b"a", b"b") for number in range(1, 11)])
