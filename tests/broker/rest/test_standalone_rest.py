"""`fencepost standalone` over REST and from a terminal: real processes."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.main import run
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.processes import Process, wait_for
from tests.support.sequence_source import properties
from tests.support.standalone import standalone_properties
from tests.support.topics import unique
from tests.support.workers import WorkerApi

STRING = "org.apache.kafka.connect.storage.StringConverter"
ANSWERS = re.compile(r"The REST API answers at http://127\.0\.0\.1:(\d+) ")


class Standalone(WorkerApi):
    """A process that runs the connector `filed`, which is configured by a file."""

    def __init__(self, process: Process, folder: Path) -> None:
        process.wait_for_output("The REST API answers at")
        found = ANSWERS.search(process.output)
        assert found is not None
        super().__init__(int(found[1]))
        self.process = process
        self.folder = folder


Start = Callable[..., Any]


@pytest.fixture
def start(tmp_path: Path, bootstrap_servers: str, topic: str) -> Start:
    """Starts a process with further worker properties."""

    @contextmanager
    def start(**settings: str) -> Iterator[Standalone]:
        folder = tmp_path / unique("worker")
        folder.mkdir()
        worker = {
            **standalone_properties(bootstrap_servers, unique("group")),
            **{name.replace("_", "."): text for name, text in settings.items()},
        }
        filed = {"name": "filed", "connector.class": "FileStreamSource", "file": str(folder / "lines"), "topic": topic}
        for file, lines in (("worker", worker), ("filed", filed)):
            (folder / file).write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
        (folder / "lines").write_text("filed 1\n")
        (folder / "log").touch()
        arguments = ("standalone", str(folder / "worker"), str(folder / "filed"))
        with Process.forked(*arguments, log_file=folder / "log") as process:
            yield Standalone(process, folder)

    return start


def lines(bootstrap_servers: str, topic: str) -> list[str]:
    return [value.decode() for value in values(read_topic(bootstrap_servers, topic)) if value is not None]


def test_connectors_of_requests_run_beside_the_connector_of_a_file(
    start: Start, bootstrap_servers: str, topic: str
) -> None:
    with start(fencepost_files_allowed_paths="/") as worker:
        worker.wait_for_states("filed", "RUNNING", "RUNNING")
        assert worker.get("/health")["status"] == "healthy"
        assert worker.get("/connectors/filed")["config"]["file"] == str(worker.folder / "lines")

        source = worker.folder / "more"
        source.write_text("more 1\nmore 2\n")
        config = {"connector.class": "FileStreamSource", "file": str(source), "topic": topic}
        assert worker.request("POST", "/connectors", {"name": "more", "config": config}).status == 201
        assert sorted(worker.get("/connectors")) == ["filed", "more"]
        worker.wait_for_states("more", "RUNNING", "RUNNING")
        wait_for(lambda: len(lines(bootstrap_servers, topic)) == 3, what="both connectors' lines are there")
        wait_for(lambda: worker.get("/connectors/more/topics")["more"]["topics"] == [topic])
        assert worker.metric("kafka_connect_worker_connector_count") == 2

        assert worker.request("PUT", "/connectors/more/pause").status == 202
        worker.wait_for_states("more", "PAUSED", "PAUSED")
        assert worker.request("PUT", "/connectors/more/resume").status == 202
        worker.wait_for_states("more", "RUNNING", "RUNNING")
        assert worker.request("POST", "/connectors/more/restart?includeTasks=true").status == 202
        worker.wait_for_states("more", "RUNNING", "RUNNING")

        assert worker.request("DELETE", "/connectors/more/offsets").status == 400
        assert worker.request("PUT", "/connectors/more/stop").status == 204
        worker.wait_for_states("more", "STOPPED")
        (offset,) = worker.get("/connectors/more/offsets")["offsets"]
        assert offset["offset"] == {"position": len("more 1\nmore 2\n")}
        altered = {"offsets": [{**offset, "offset": {"position": len("more 1\n")}}]}
        assert worker.request("PATCH", "/connectors/more/offsets", altered).status == 200
        assert worker.request("PUT", "/connectors/more/resume").status == 202
        wait_for(lambda: lines(bootstrap_servers, topic).count("more 2") == 2, what="the second line is read again")

        assert worker.request("DELETE", "/connectors/more").status == 204
        assert worker.request("GET", "/connectors/more/status").status == 404
        assert worker.request("DELETE", "/connectors/filed").status == 204
        assert worker.request("PUT", "/connectors/filed/fence").status == 404
        assert worker.get("/connectors") == []
        worker.process.signal(signal.SIGTERM)
        assert worker.process.wait() == 0
    assert_exactly_once(lines(bootstrap_servers, topic), ["filed 1", "more 1", "more 2", "more 2"])


def test_commands_of_a_terminal_reach_a_standalone_worker(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with start() as worker:
        monkeypatch.setenv("FENCEPOST_URL", f"http://127.0.0.1:{worker.port}")
        assert run(["connectors", "watch", "filed", "--until", "RUNNING", "--timeout", "60"]) == 0
        assert run(["connectors", "pause", "filed"]) == 0
        worker.wait_for_states("filed", "PAUSED", "PAUSED")
        assert run(["connectors", "show", "filed"]) == 0
        assert "PAUSED" in capsys.readouterr().out
        assert run(["connectors", "transactions", "filed"]) == 0
        assert run(["connectors", "pause", "nobody"]) == 1
        assert "There is no connector nobody" in capsys.readouterr().err


def test_the_log_of_a_standalone_worker_names_the_address_of_its_page(start: Start) -> None:
    with start() as worker:
        worker.process.wait_for_output(f"The page for browsers is at http://127.0.0.1:{worker.port}/ui ")


def test_several_processes_on_a_machine_get_ports_of_their_own(start: Start) -> None:
    with start() as first, start() as second:
        assert first.port != second.port
        for worker in (first, second):
            worker.wait_for_states("filed", "RUNNING", "RUNNING")


def test_a_port_that_is_named_and_taken_is_an_error(start: Start, tmp_path: Path) -> None:
    with start() as first:
        files = str(first.folder / "worker"), str(first.folder / "filed")
        with (first.folder / "worker").open("a") as file:
            file.write(f"listeners=http://127.0.0.1:{first.port}\n")
        with Process.forked("standalone", *files, log_file=tmp_path / "log") as second:
            assert second.wait() == 2
            assert f"Cannot listen on http://127.0.0.1:{first.port}" in second.output


def test_requests_are_limited_where_connector_files_are_not(start: Start, topic: str) -> None:
    """A REST client need not be the owner of the connector files, so more is refused to it."""
    with start() as worker:
        worker.wait_for_states("filed", "RUNNING", "RUNNING")
        refused = worker.request("PUT", "/connectors/imported/config", properties("imported", topic))
        assert refused.status == 400
        assert "fencepost.plugins.allowed.modules" in refused.body["message"]

        # The file is outside of the worker's working directory.
        config = {**worker.get("/connectors/filed")["config"], "name": "other"}
        refused = worker.request("PUT", "/connectors/other/config", config)
        assert refused.status == 400
        assert "fencepost.files.allowed.paths" in refused.body["message"]
        assert worker.states("filed") == ["RUNNING", "RUNNING"]


def test_a_connector_that_a_request_made_does_not_end_the_worker(start: Start, topic: str) -> None:
    with start(fencepost_files_allowed_paths="/") as worker:
        # No record fits, so the task fails.
        too_small = "producer.override.max.request.size"
        config = {**worker.get("/connectors/filed")["config"], "name": "failing", "topic": topic, too_small: "1"}
        assert worker.request("PUT", "/connectors/failing/config", config).status == 201
        worker.wait_for_states("failing", "RUNNING", "FAILED")
        assert worker.request("DELETE", "/connectors/filed").status == 204
        assert worker.request("PATCH", "/connectors/failing/config", {too_small: None}).status == 200
        worker.wait_for_states("failing", "RUNNING", "RUNNING")
