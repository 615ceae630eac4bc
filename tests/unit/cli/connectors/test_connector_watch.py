"""`fencepost connectors watch`."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from fencepost.cli import main
from fencepost.cli.connectors.connector_watch import changes
from tests.unit.cli.conftest import Run


def test_watching_ends_when_the_state_is_reached(run: Run, file: Path) -> None:
    run("create", file)

    code, out, _ = run("watch", "lines", "--until", "running", "-o", "json")
    assert code == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["lines", "lines-0"]
    assert "lines RUNNING 127.0.0.1:8083" in run("watch", "--until", "RUNNING")[1]


def test_watching_ends_with_3_when_a_task_fails(run: Run, failing_file: Path) -> None:
    run("create", failing_file)
    code, out, _ = run("watch", "failing", "--until", "RUNNING")
    assert code == 3
    assert "failing-0 FAILED 127.0.0.1:8083 why" in out


def test_watching_ends_with_1_on_time_out_or_if_the_connector_is_missing(run: Run, file: Path) -> None:
    run("create", file)
    code, _, err = run("watch", "lines", "--until", "PAUSED", "--timeout", 0)
    assert code == 1
    assert "the state is not PAUSED" in err
    assert run("watch", "nobody", "--until", "RUNNING")[0] == 1


def test_changes_are_new_states_new_workers_and_deletions() -> None:
    running = {"state": "RUNNING", "worker_id": "one"}
    moved = {"state": "RUNNING", "worker_id": "two"}
    paused = {"state": "PAUSED", "worker_id": "one"}

    before = {"same": running, "moved": running, "paused": running, "gone": running}
    assert dict(changes(before, {"same": running, "moved": moved, "paused": paused, "new": running})) == {
        "moved": moved, "paused": paused, "new": running, "gone": {"state": "DELETED", "worker_id": "one"},
    }  # fmt: skip


class Worker(threading.Thread):
    """A worker that first is down, then answers with an error, and then succeeds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        # Until the worker listens, connections are refused.
        self._server = socket.socket()
        self._server.bind(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.answers = [b"HTTP/1.1 503 Starting", b"HTTP/1.1 200 OK"]

    def run(self) -> None:
        status = {"name": "c", "connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": []}
        body = json.dumps({"c": {"status": {**status, "tasks": [{"id": 0, **status["connector"]}]}}}).encode()
        with self._server:
            self._server.listen()
            while self.answers:
                connection, _ = self._server.accept()
                with connection:
                    connection.recv(65536)
                    head = self.answers.pop(0) + b"\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
                    connection.sendall(head + body)


def test_watching_survives_a_worker_that_restarts(capsys: pytest.CaptureFixture[str]) -> None:
    worker = Worker()
    starting = threading.Timer(1.0, worker.start)
    starting.start()

    options = ("--until", "RUNNING", "--retry-seconds", "600", "--url", f"http://127.0.0.1:{worker.port}")
    code = main.run(["connectors", "watch", "c", *options])

    assert code == 0
    assert worker.answers == []
    assert "c-0 RUNNING" in capsys.readouterr().out


def test_watching_ends_if_no_worker_comes_back(run: Run) -> None:
    code, _, err = run("watch", "--url", "http://127.0.0.1:1", "--retry-seconds", 0)
    assert code == 1
    assert "cannot be reached" in err
