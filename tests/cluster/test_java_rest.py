"""Each request of Connect's REST API and of the page, for a Java connector on one worker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import DataTable

from fencepost.cli import main
from fencepost.cli.top.top_app import TopApp
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
    """A Java connector that reads a file, and requests for it."""

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

    def states(self) -> list[str]:
        return self._worker.states(self.name)

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
    # Active topics are written to the status topic after the commit.
    lines.wait_for_topics(lines.topic)
    return lines


def test_the_plugins_definitions_are_those_of_the_java_class(worker: Worker):
    for name in (FILE_STREAM, "FileStreamSource"):
        definitions = worker.get(f"/connector-plugins/{name}/config?version=4.1.1")
        assert [one["name"] for one in definitions][:4] == ["file", "topic", "batch.size", "name"]
    assert worker.request("GET", f"/connector-plugins/{FILE_STREAM}/config?version=1").status == 400


def test_a_converter_in_java_has_the_properties_that_it_defines_and_no_others(worker: Worker):
    assert worker.get(f"/connector-plugins/{STUCK}/config") == []


def test_an_invalid_configuration_is_refused_with_javas_message(worker: Worker, lines: Lines):
    # exactlyOnceSupport() of the connector also parses the configuration, and fails as well.
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


def test_a_running_connector_is_shown_with_its_version_and_task_config(worker: Worker, running: Lines):
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
    # The old task, with the unpatched configuration, could still read the next line before that.
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
def test_a_connector_resumes_at_its_offset_after_a_restart(running: Lines, path: str, status: int):
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


def test_active_topics_are_empty_after_a_reset(running: Lines):
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


def test_tail_and_verify_read_what_it_wrote(running: Lines, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]):
    where = ["--bootstrap-server", bootstrap_servers, "-o", "json"]
    capsys.readouterr()
    assert main.run(["tail", running.topic, "--from", "-3", *where]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["value"] for record in shown] == LINES[-3:]
    assert running.request("PUT", "/stop").status == 204
    running.wait_for_states("STOPPED")
    against = ["--source", running.config["file"], "--expect-count", str(len(LINES))]
    assert main.run(["verify", running.topic, *against, *where]) == 0
    with Path(running.config["file"]).open("a") as file:
        file.write("one more\n")
    capsys.readouterr()
    assert main.run(["verify", running.topic, "--source", running.config["file"], *where]) == 1
    assert json.loads(capsys.readouterr().out)["rows"]["lost"] == 1


@pytest.fixture
def ask(worker: Worker, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command of `fencepost connectors`; returns its exit code and output."""

    def ask(*command: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main.run(["connectors", *command, "--url", worker.url])
        return code, capsys.readouterr().out

    return ask


def test_fencepost_connectors_lists_shows_checks_and_restarts_it(
    running: Lines, ask: Callable[..., tuple[int, str]], tmp_path: Path
):
    code, shown = ask("list")
    (row,) = [line.split() for line in shown.splitlines() if running.name in line]
    assert code == 0
    assert [cell for cell in row if cell not in "│|"][1:4] == [FILE_STREAM.rpartition(".")[2], "RUNNING", "1"]
    code, shown = ask("show", running.name)
    assert code == 0
    assert f"{running.name}-0" in shown
    file = tmp_path / "config.json"
    for prefix, size, errors in (("", "7", []), ("java:", "7", []), ("java:", "many", ["batch.size"])):
        config = {**running.config, "name": running.name, "connector.class": f"{prefix}{FILE_STREAM}"}
        # With "required", exactlyOnceSupport() also parses the configuration, and fails as well.
        config |= {"batch.size": size, "exactly.once.support": "requested"}
        file.write_text(json.dumps(config))
        code, shown = ask("validate", str(file), "-o", "json")
        wrong = [one["value"]["name"] for one in json.loads(shown)["configs"] if one["value"]["errors"]]
        assert (code, wrong) == (len(errors), errors)
    starts = running.starts()
    assert ask("restart", running.name, "--tasks")[0] == 0
    wait_for(lambda: running.starts() > starts, what="the new task runs")
    running.wait_for_records(len(LINES))


def test_fencepost_connectors_configures_pauses_stops_moves_and_deletes_it(
    running: Lines, ask: Callable[..., tuple[int, str]], tmp_path: Path
):
    name, file, end = running.name, tmp_path / "config.json", len(TEXT)

    def become(command: str, *states: str) -> None:
        assert ask(command, name)[0] == 0
        code, shown = ask("watch", name, "--until", states[0], "--timeout", "120", "-o", "json")
        assert code == 0
        last = {one["id"]: one["state"] for one in map(json.loads, shown.splitlines())}
        assert [state for state in last.values() if state != "DELETED"] == list(states)
        assert running.states() == list(states)

    file.write_text(json.dumps({**running.config, "name": name, "batch.size": "7"}))
    starts = running.starts()
    assert ask("update", str(file)) == (0, f"Configured {name}.\n")
    wait_for(lambda: running.starts() > starts, what="the new task runs")
    assert running.request("GET", "/tasks").body[0]["config"]["batch.size"] == "7"
    become("pause", "PAUSED", "PAUSED")
    become("resume", "RUNNING", "RUNNING")
    with Path(running.config["file"]).open("a") as lines:
        lines.write("one more\n")
    running.wait_for_records(len(LINES) + 1)
    wait_for(lambda: running.position() == end + 9, what="the position is committed")
    code, shown = ask("transactions", name, "-o", "json")
    (task,) = json.loads(shown)["tasks"]
    assert (code, task["last_commit"]["records"]) == (0, 1)
    assert f"{name}-0" in ask("transactions", name)[1]
    become("stop", "STOPPED")
    code, shown = ask("offsets", "show", name, "-o", "json")
    offsets = json.loads(shown)
    assert (code, [one["offset"] for one in offsets["offsets"]]) == (0, [{"position": end + 9}])
    offsets["offsets"][0]["offset"]["position"] = end
    file.write_text(json.dumps(offsets))
    assert ask("offsets", "alter", name, str(file))[0] == 0
    assert running.position() == end
    assert str(end) in ask("offsets", "show", name)[1]
    become("resume", "RUNNING", "RUNNING")
    running.wait_for_records(len(LINES) + 2)
    become("stop", "STOPPED")
    assert ask("offsets", "reset", name)[0] == 0
    assert running.position() is None
    assert ask("delete", name) == (0, f"Deleted {name}.\n")
    assert running.request("GET").status == 404


def test_top_shows_its_task_with_its_records(worker: Worker, running: Lines):
    async def look() -> None:
        app = TopApp(worker.url)
        async with app.run_test(size=(200, 30)) as pilot:
            table = app.screen.query_one(DataTable)

            def rows() -> list[list[str]]:
                return [[cell.plain.strip() for cell in table.get_row_at(at)] for at in range(table.row_count)]

            async def shown(*cells: str) -> None:
                deadline = time.monotonic() + 120
                while not any(set(cells) <= set(row) for row in rows()):
                    assert time.monotonic() < deadline, (cells, rows())
                    await pilot.pause(0.05)

            await shown(running.name, "RUNNING", "1/1", str(len(LINES)))

    asyncio.run(look())


def test_a_deleted_connector_is_gone_and_its_offsets_stay(running: Lines):
    assert running.request("DELETE").status == 204
    wait_for(lambda: running.request("GET", "/status").status == 404, what="no status")
    assert running.create("STOPPED").status == 201
    running.wait_for_states("STOPPED")
    assert running.position() == len(TEXT)
