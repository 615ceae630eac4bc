"""Each request of Connect's REST API, and of the page, for a Java connector on one worker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_topic
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_plugins import FILE_STREAM, HOSTILE, STUCK, plugin_path
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.workers import Answer, Group, Worker

LINES = [f"line {number}" for number in range(50)]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("java")
    group = Group(
        folder, broker.bootstrap_servers, plugin_path=str(plugin_path(folder, "file", "hostile", "transforms"))
    )
    with java_group_worker(group) as worker:
        yield worker


class Lines:
    """A connector in Java that reads a file, and the requests that concern it."""

    def __init__(self, worker: Worker, config: Mapping[str, str], servers: str) -> None:
        self.name = unique("lines")
        self.topic = config["topic"]
        self.config = {"connector.class": FILE_STREAM, "exactly.once.support": "required", **config}
        self._worker = worker
        self._servers = servers

    def request(self, method: str, path: str = "", body: Any = None) -> Answer:
        return self._worker.request(method, f"/connectors/{self.name}{path}", body)

    def create(self, state: str) -> Answer:
        body = {"name": self.name, "config": self.config, "initial_state": state}
        return self._worker.request("POST", "/connectors", body)

    def wait_for_states(self, *states: str) -> None:
        self._worker.wait_for_states(self.name, *states)

    def wait_for_records(self, count: int) -> None:
        wait_for(lambda: len(read_topic(self._servers, self.topic)) == count, what=f"{count} records")

    def wait_for_topics(self, *topics: str) -> None:
        used = {self.name: {"topics": list(topics)}}
        wait_for(lambda: self.request("GET", "/topics").body == used, what=f"the topics {topics} are in use")

    def starts(self) -> int:
        """How often the task has been started."""
        return self._worker.process.output.count(f"Task {self.name}-0 is RUNNING")

    def position(self) -> int | None:
        offsets = self.request("GET", "/offsets").body["offsets"]
        assert all(one["partition"] == {"filename": self.config["file"]} for one in offsets)
        return offsets[0]["offset"]["position"] if offsets else None


@pytest.fixture
def lines(worker: Worker, topics: Topics, tmp_path: Path, bootstrap_servers: str) -> Iterator[Lines]:
    (tmp_path / "lines.txt").write_text(TEXT)
    lines = Lines(worker, {"file": str(tmp_path / "lines.txt"), "topic": topics.create()}, bootstrap_servers)
    yield lines
    lines.request("DELETE")


@pytest.fixture
def running(lines: Lines) -> Lines:
    assert lines.create("RUNNING").status == 201
    lines.wait_for_states("RUNNING", "RUNNING")
    lines.wait_for_records(len(LINES))
    # It is noted after the commit, in the status topic.
    lines.wait_for_topics(lines.topic)
    return lines


def test_the_definitions_of_the_plugin_are_javas(worker: Worker):
    for name in (FILE_STREAM, "FileStreamSource"):
        definitions = worker.get(f"/connector-plugins/{name}/config?version=4.1.1")
        assert [one["name"] for one in definitions][:4] == ["file", "topic", "batch.size", "name"]
    assert worker.request("GET", f"/connector-plugins/{FILE_STREAM}/config?version=1").status == 400


def test_a_converter_in_java_has_the_properties_that_it_defines_and_no_others(worker: Worker):
    assert worker.get(f"/connector-plugins/{STUCK}/config") == []


def test_a_wrong_configuration_is_refused_in_the_words_of_java(worker: Worker, lines: Lines):
    # Asked whether it is exactly once, the connector parses the configuration, and fails a second time.
    lines.config |= {"batch.size": "many", "exactly.once.support": "requested"}
    config = {**lines.config, "name": lines.name}
    answer = worker.request("PUT", f"/connector-plugins/{FILE_STREAM}/config/validate", config)
    assert (answer.status, answer.body["error_count"], answer.body["name"]) == (200, 1, FILE_STREAM)
    wrong = "Invalid value many for configuration batch.size: Not a number of type INT"
    assert [one["value"]["errors"] for one in answer.body["configs"] if one["value"]["errors"]] == [[wrong]]
    refused = lines.create("RUNNING")
    assert refused.status == 400
    assert wrong in refused.body["message"]
    assert lines.request("GET").status == 404


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED"])
def test_a_connector_that_is_created_at_rest_begins_when_it_is_resumed(
    lines: Lines, state: str, bootstrap_servers: str
):
    created = lines.create(state)
    assert (created.status, created.body["tasks"], created.body["type"]) == (201, [], "source")
    lines.wait_for_states(state)
    assert lines.position() is None
    assert lines.request("PUT", "/resume").status == 202
    lines.wait_for_states("RUNNING", "RUNNING")
    lines.wait_for_records(len(LINES))
    assert [record.value for record in read_topic(bootstrap_servers, lines.topic)] == [line.encode() for line in LINES]


def test_what_runs_is_described_with_its_version_and_the_configuration_of_its_task(worker: Worker, running: Lines):
    name = running.name
    state = {"state": "RUNNING", "worker_id": worker.id, "version": "4.1.1"}
    status = {"name": name, "connector": state, "tasks": [{"id": 0, **state}], "type": "source"}
    config = {**running.config, "name": name}
    info = {"name": name, "config": config, "tasks": [{"connector": name, "task": 0}], "type": "source"}
    assert worker.get("/connectors?expand=info&expand=status")[name] == {"info": info, "status": status}
    assert running.request("GET").body == info
    assert running.request("GET", "/config").body == config
    assert running.request("GET", "/status").body == status
    assert running.request("GET", "/tasks/0/status").body == {"id": 0, **state}
    (task,) = running.request("GET", "/tasks").body
    assert task["id"] == {"connector": name, "task": 0}
    assert task["config"].items() >= {"task.class": FILE_STREAM.replace("Connector", "Task"), **running.config}.items()
    assert running.request("GET", "/tasks/1/status").status == 404


def test_a_patched_property_reaches_the_task_and_nothing_is_read_twice(running: Lines, topics: Topics):
    other, starts = topics.create(), running.starts()
    patched = running.request("PATCH", "/config", {"topic": other, "batch.size": "7", "exactly.once.support": None})
    assert patched.status == 200
    assert "exactly.once.support" not in patched.body["config"]
    wait_for(lambda: running.request("GET", "/tasks").body[0]["config"].get("batch.size") == "7", what="the new task")
    # Until then the task with the unpatched configuration may read the next line.
    wait_for(lambda: running.starts() > starts, what="the new task runs")
    with Path(running.config["file"]).open("a") as file:
        file.write("one more\n")
    running.topic = other
    running.wait_for_records(1)
    refused = running.request("PATCH", "/config", {"batch.size": "many"})
    assert refused.status == 400
    assert running.request("GET", "/config").body["batch.size"] == "7"


def test_a_paused_connector_keeps_its_task_and_a_stopped_one_does_not(running: Lines):
    assert running.request("PUT", "/pause").status == 202
    running.wait_for_states("PAUSED", "PAUSED")
    with Path(running.config["file"]).open("a") as file:
        file.write("while it was paused\n")
    assert running.request("PUT", "/resume").status == 202
    running.wait_for_states("RUNNING", "RUNNING")
    running.wait_for_records(len(LINES) + 1)
    assert running.request("PUT", "/stop").status == 204
    running.wait_for_states("STOPPED")
    assert running.request("GET", "/tasks").body == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/restart", 204),
        ("/restart?includeTasks=true", 202),
        ("/restart?includeTasks=true&onlyFailed=true", 202),
        ("/tasks/0/restart", 204),
    ],
)
def test_a_connector_goes_on_where_it_was_after_a_restart(running: Lines, path: str, status: int):
    assert running.request("POST", path).status == status
    with Path(running.config["file"]).open("a") as file:
        file.write("after the restart\n")
    running.wait_for_records(len(LINES) + 1)
    running.wait_for_states("RUNNING", "RUNNING")
    assert running.request("POST", "/tasks/1/restart").status == 404


def test_only_the_failed_task_is_restarted_if_asked(worker: Worker, connector: Connectors, topics: Topics):
    config = {"connector.class": HOSTILE, "topic": topics.create(), "behaviour": "throw in task.poll"}
    name = connector.start({**config, "task.restart.policy": "never"})
    worker.wait_for_states(name, "RUNNING", "FAILED")
    answer = worker.request("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
    assert answer.status == 202
    assert (answer.body["connector"]["state"], answer.body["tasks"][0]["state"]) == ("RUNNING", "RESTARTING")
    worker.wait_for_states(name, "RUNNING", "FAILED")
    reason = "java.lang.IllegalStateException: the source is gone"
    wait_for(lambda: reason in connector.trace(name), what="the reason that it failed again")


def test_topics_in_use_are_forgotten_when_they_are_reset(running: Lines):
    assert running.request("PUT", "/topics/reset").status == 202
    running.wait_for_topics()
    with Path(running.config["file"]).open("a") as file:
        file.write("one more\n")
    running.wait_for_topics(running.topic)


def test_offsets_of_a_stopped_connector_are_altered_and_reset_if_java_agrees(running: Lines):
    end, partition = len(TEXT), {"filename": running.config["file"]}

    def at(position: Any) -> dict[str, Any]:
        return {"offsets": [{"partition": partition, "offset": {"position": position}}]}

    assert running.position() == end
    assert running.request("PATCH", "/offsets", at(0)).status == 400
    assert running.request("DELETE", "/offsets").status == 400
    assert running.request("PUT", "/stop").status == 204
    running.wait_for_states("STOPPED")
    refused = running.request("PATCH", "/offsets", at("early"))
    assert refused.status == 500
    assert "is expected to be a Long value" in refused.body["message"]
    assert running.position() == end
    last = end - len(LINES[-1]) - 1
    assert running.request("PATCH", "/offsets", at(last)).status == 200
    assert running.position() == last
    running.request("PUT", "/resume")
    running.wait_for_records(len(LINES) + 1)
    running.request("PUT", "/stop")
    running.wait_for_states("STOPPED")
    assert running.request("DELETE", "/offsets").status == 200
    assert running.position() is None
    running.request("PUT", "/resume")
    running.wait_for_records(2 * len(LINES) + 1)


def test_levels_of_javas_loggers_are_set_and_shown(worker: Worker):
    assert worker.request("PUT", "/admin/loggers/java.walked", {"level": "DEBUG"}).body == ["java.walked"]
    assert worker.get("/admin/loggers/java.walked")["level"] == "DEBUG"
    assert worker.get("/admin/loggers")["java.walked"]["level"] == "DEBUG"
    assert worker.request("PUT", "/admin/loggers/java.walked?scope=cluster", {"level": "INFO"}).status == 204
    wait_for(lambda: worker.get("/admin/loggers/java.walked")["level"] == "INFO", what="the level of the cluster")
    assert worker.request("PUT", "/admin/loggers/java.walked", {"level": "LOUD"}).status == 400


def test_the_page_shows_the_connector_its_log_its_topic_and_the_records(worker: Worker, running: Lines):
    row = wait_for(
        lambda: (found := worker.get("/ui/api/overview")["rows"][running.name])["records"] == len(LINES) and found,
        what="all records are counted",
    )
    assert (row["class"], row["state"]) == (FILE_STREAM, "RUNNING")
    (task,) = worker.get(f"/ui/api/connectors/{running.name}")["tasks"]
    assert task["records"] == len(LINES)
    assert "history" in worker.get(f"/ui/api/connectors/{running.name}/history")
    logged = worker.get(f"/ui/api/connectors/{running.name}/logs")["logs"]
    assert f"Task {running.name}-0 is RUNNING" in [line["message"] for line in logged]
    (partition,) = worker.get(f"/ui/api/topics/{running.topic}")["partitions"]
    assert partition["stable"] == partition["end"] > len(LINES)
    shown = worker.get(f"/ui/api/topics/{running.topic}/records")
    assert shown["connectors"] == [running.name]
    assert [json.loads(record["value"]) for record in shown["records"]] == LINES[-len(shown["records"]) :][::-1]


def test_a_deleted_connector_is_gone_and_its_offsets_stay(running: Lines):
    assert running.request("DELETE").status == 204
    wait_for(lambda: running.request("GET", "/status").status == 404, what="no status")
    assert running.create("STOPPED").status == 201
    running.wait_for_states("STOPPED")
    assert running.position() == len(TEXT)
