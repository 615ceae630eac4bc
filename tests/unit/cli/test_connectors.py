"""`fencepost connectors` against a worker's REST API over a herder that keeps everything in dicts."""

from __future__ import annotations

import asyncio
import json
import math
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry, Gauge

from fencepost.cli import main
from fencepost.cli.connect_client import ConnectClient
from fencepost.cli.connector_figures import Figures, figures_of
from fencepost.cli.connector_views import first_line, print_connectors, print_transactions
from fencepost.cli.connector_watch import changes
from fencepost.herder.errors import RebalanceNeededError
from fencepost.herder.interface import ConnectorInfo
from fencepost.storage.configs.codec import TargetState
from tests.support.model_herder import ModelConnectors, ModelHerder
from tests.support.rest import RestApis
from tests.support.security import make_certificate

Run = Callable[..., tuple[int, str, str]]


class RebalancingHerder(ModelHerder):
    """Refuses to show connectors as often as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals = 0
        self.connectors = _RebalancingConnectors(self)


class _RebalancingConnectors(ModelConnectors):
    async def info(self, name: str) -> ConnectorInfo:
        herder = self._model
        if isinstance(herder, RebalancingHerder) and herder.refusals > 0:
            herder.refusals -= 1
            raise RebalanceNeededError("A rebalance is due")
        return await super().info(name)


@pytest.fixture
def herder() -> RebalancingHerder:
    return RebalancingHerder()


@pytest.fixture
def run(
    herder: RebalancingHerder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Runs `fencepost connectors` and gives its exit code and what it printed."""
    with RestApis() as apis:
        monkeypatch.setenv("FENCEPOST_URL", apis.serve(herder).url)

        def run(*arguments: Any) -> tuple[int, str, str]:
            # The command has a thread of its own, as the worker answers on this one.
            code = apis.call(asyncio.to_thread(main.run, ["connectors", *map(str, arguments)]))
            printed = capsys.readouterr()
            return code, printed.out, printed.err

        yield run


@pytest.fixture
def url(run: Run) -> str:
    """The address of the worker that `run` asks."""
    del run
    return os.environ["FENCEPOST_URL"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A connector's file; its name is lines."""
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "lines"}
    path = tmp_path / "lines.json"
    path.write_text(json.dumps({"name": "lines", "config": config}))
    return path


@pytest.fixture
def failing_file(tmp_path: Path) -> Path:
    """A connector's file whose task the herder shows as FAILED."""
    path = tmp_path / "failing.properties"
    path.write_text(
        f"name=failing\nconnector.class=FileStreamSource\nfile={tmp_path}/in.txt\ntopic=t\noffsets.storage.topic=t\n"
    )
    return path


def test_a_connector_is_created_from_a_file_and_listed(run: Run, file: Path) -> None:
    assert run("create", file) == (0, "Created lines.\n", "")

    code, out, _ = run("list")
    assert code == 0
    assert [word for word in ("lines", "FileStreamSource", "RUNNING", "1 RUNNING", "127.0.0.1:8083") if word in out] == [
        "lines", "FileStreamSource", "RUNNING", "1 RUNNING", "127.0.0.1:8083",
    ]  # fmt: skip
    assert json.loads(run("list", "-o", "json")[1])["lines"]["status"]["connector"]["state"] == "RUNNING"


def test_a_connector_begins_in_the_requested_state(run: Run, herder: ModelHerder, file: Path) -> None:
    assert run("create", file, "--state", "stopped")[0] == 0
    assert herder.known["lines"].target is TargetState.STOPPED


def test_a_name_that_is_taken_is_refused_without_waiting(run: Run, file: Path) -> None:
    run("create", file)

    # With the longest wait the test would run into its time limit.
    code, out, err = run("create", file, "--retry-seconds", 1_000_000)
    assert (code, out) == (1, "")
    assert "already exists (status 409" in err
    assert err.count("\n") == 1


def test_a_file_without_a_name_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.properties").write_text("connector.class=FileStreamSource\n")
    code, _, err = run("create", tmp_path / "c.properties")
    assert code == 2
    assert "c.properties: the property name is required" in err


def test_a_connector_is_shown_with_its_configuration(run: Run, file: Path) -> None:
    run("create", file)

    code, out, _ = run("show", "lines")
    assert code == 0
    assert str(file.with_name("in.txt")) in out
    assert "lines-0" in out
    shown = json.loads(run("show", "lines", "-o", "json")[1])
    assert shown["info"]["config"]["topic"] == "lines"
    assert shown["status"]["tasks"][0]["state"] == "RUNNING"


def test_a_failed_task_is_shown_with_its_reason_and_exit_code_3(run: Run, failing_file: Path) -> None:
    run("create", failing_file)

    code, out, _ = run("show", "failing")
    assert code == 3
    assert "failing-0 failed:\nwhy\n" in out


def test_a_missing_connector_is_exit_code_1(run: Run) -> None:
    code, out, err = run("show", "nobody")
    assert (code, out) == (1, "")
    assert err.startswith("fencepost: There is no connector nobody (status 404")


def test_a_configuration_is_replaced(run: Run, herder: ModelHerder, file: Path) -> None:
    run("create", file)
    file.write_text(file.read_text().replace('"topic": "lines"', '"topic": "others"'))

    assert run("update", file)[:2] == (0, "Configured lines.\n")
    assert herder.known["lines"].config["topic"] == "others"


def test_validating_reports_errors_and_creates_nothing(run: Run, herder: ModelHerder, file: Path) -> None:
    assert run("validate", file)[:2] == (0, "The configuration is valid.\n")

    file.write_text(file.read_text().replace('"topic": "lines"', '"tasks.max": "zero", "topic": "lines"'))
    code, out, _ = run("validate", file)
    assert code == 1
    name, error, *_, count = out.splitlines()
    assert name == "tasks.max"
    assert error.startswith("    Invalid value 'zero'")
    assert count.endswith(" errors.")
    code, out, _ = run("validate", file, "-o", "json")
    assert code == 1
    assert json.loads(out)["error_count"] > 0
    assert not herder.known


def test_errors_of_a_configuration_fit_the_width_of_a_terminal(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(file.read_text().replace('"topic": "lines"', f'"tasks.max": "{"x" * 30}", "topic": "lines"'))
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    lines = run("validate", file)[1].splitlines()

    assert len(lines) > 3
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize(
    ("command", "state"),
    [("pause", TargetState.PAUSED), ("stop", TargetState.STOPPED), ("resume", TargetState.STARTED)],
)
def test_a_connector_is_paused_stopped_and_resumed(
    run: Run, herder: ModelHerder, file: Path, command: str, state: TargetState
) -> None:
    run("create", file, "--state", "PAUSED" if command == "resume" else "RUNNING")
    assert run(command, "lines")[0] == 0
    assert herder.known["lines"].target is state


def test_as_json_each_command_prints_what_the_worker_answered_and_nothing_else(run: Run, file: Path) -> None:
    def answer(*arguments: Any) -> Any:
        code, out, err = run(*arguments, "-o", "json")
        assert (code, err) == (0, "")
        return json.loads(out) if out else None

    assert answer("create", file)["config"]["topic"] == "lines"
    assert answer("update", file)["name"] == "lines"
    assert answer("offsets", "show", "lines")["offsets"][0]["offset"] == {"position": 14}
    assert [answer(command, "lines") for command in ("pause", "resume", "stop")] == [None] * 3
    assert "successfully" in answer("offsets", "reset", "lines")["message"]
    assert answer("delete", "lines") is None


def test_a_connector_with_a_name_of_all_sorts_is_reached_and_deleted(run: Run, herder: ModelHerder, file: Path) -> None:
    name = "a/b [bold]c? 100%25"
    file.write_text(file.read_text().replace('"name": "lines"', f'"name": "{name}"'))
    run("create", file)

    assert name in run("list")[1]
    assert run("delete", name)[0] == 0
    assert not herder.known


def test_a_connector_its_tasks_or_one_of_them_is_restarted(run: Run, file: Path) -> None:
    run("create", file)

    assert run("restart", "lines", "-o", "json") == (0, "", "")
    whole = json.loads(run("restart", "lines", "--tasks", "-o", "json")[1])
    assert (whole["connector"]["state"], whole["tasks"][0]["state"]) == ("RESTARTING", "RESTARTING")
    failed = json.loads(run("restart", "lines", "--tasks", "--only-failed", "-o", "json")[1])
    assert (failed["connector"]["state"], failed["tasks"][0]["state"]) == ("RUNNING", "RUNNING")
    assert run("restart", "lines", "--task", 0)[0] == 0
    assert run("restart", "lines", "--task", 7)[0] == 1
    assert run("restart", "lines", "--task", 0, "--tasks")[0] == 2


def test_transactions_are_shown_by_task(run: Run, file: Path) -> None:
    assert run("create", file)[0] == 0
    code, out, _ = run("transactions", "lines")
    assert code == 0
    shown = ("group-lines-0", "IN_TRANSACTION", "1000/7", "2 (99 bytes)", "3 records", '{"p": "a"}: {"o": 3}')
    assert [word for word in shown if word in out] == list(shown)
    assert json.loads(run("transactions", "lines", "-o", "json")[1])["tasks"][0]["open_since"] == 1_700_000_001_000
    assert run("transactions", "unknown")[0] == 1


def test_of_a_commit_of_many_offsets_the_first_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    offsets = [{"partition": {"p": number}, "offset": None} for number in range(8)]
    task = {
        "id": 0, "worker_id": "w", "transactional_id": "t", "state": "READY", "producer_id": 1, "producer_epoch": 2,
        "open_since": None, "last_commit": {"at": 0, "records": 8, "offsets": offsets},
    }  # fmt: skip
    print_transactions({"tasks": [task]})
    out = capsys.readouterr().out
    assert [number for number in range(8) if f'{{"p": {number}}}: null' in out] == [0, 1, 2, 3, 4]
    assert "and 3 more, see -o json" in out


def test_offsets_that_are_shown_as_json_can_be_altered_and_reset(run: Run, file: Path, tmp_path: Path) -> None:
    run("create", file)
    assert '{"position": 14}' in run("offsets", "show", "lines")[1]
    offsets = tmp_path / "offsets.json"
    offsets.write_text(run("offsets", "show", "lines", "-o", "json")[1].replace("14", "4"))

    code, _, err = run("offsets", "alter", "lines", offsets)
    assert code == 1
    assert "must be STOPPED" in err
    assert "The command for that: fencepost connectors stop lines" in err
    assert "fencepost connectors stop lines" in run("offsets", "reset", "lines")[2]
    run("stop", "lines")
    assert run("offsets", "alter", "lines", offsets)[:2] == (0, "The offsets of lines were altered successfully.\n")
    assert '{"position": 4}' in run("offsets", "show", "lines")[1]
    assert run("offsets", "reset", "lines")[0] == 0
    assert json.loads(run("offsets", "show", "lines", "-o", "json")[1]) == {"offsets": []}


def test_a_rebalance_is_waited_for(run: Run, herder: RebalancingHerder, file: Path) -> None:
    run("create", file)
    herder.refusals = 2
    assert run("show", "lines")[0] == 0
    assert herder.refusals == 0


def test_a_rebalance_is_not_waited_for_without_end(run: Run, herder: RebalancingHerder, file: Path) -> None:
    run("create", file)
    herder.refusals = 1
    code, _, err = run("show", "lines", "--retry-seconds", 0)
    assert code == 1
    assert "A rebalance is due (status 409" in err


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


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        ("Traceback (most recent call last):\n  File x\n    f()\nOSError: it\nbroke\n", "OSError: it"),
        ("java.io.IOException: it\n\tat x.f(x.java:1)\n", "java.io.IOException: it"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("", ""),
    ],
)
def test_of_a_trace_one_line_says_what_happened(trace: str, told: str) -> None:
    assert first_line(trace) == told


def test_the_next_worker_is_asked_if_one_cannot_be_reached(run: Run, file: Path, url: str) -> None:
    away = "http://me:secret@127.0.0.1:1"
    assert run("create", file, "--url", away, "--url", url)[0] == 0

    assert "lines" in run("list", "--url", url, "--url", away)[1]
    code, _, err = run("list", "--url", away, "--url", "http://127.0.0.1:2")
    assert code == 1
    assert "http://127.0.0.1:2 cannot be reached" in err


def test_several_workers_may_be_named_in_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("FENCEPOST_URL", f"http://127.0.0.1:1 {url}")
    assert run("list")[0] == 0


class Worker(threading.Thread):
    """A worker that is down, then fails, and then answers."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        # Connections are refused until it listens.
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


def test_the_figures_of_a_connector_are_those_of_its_tasks_on_all_workers() -> None:
    registries = [CollectorRegistry(), CollectorRegistry()]
    rate = "kafka_connect_source_task_source_record_write_rate"
    for number, registry in enumerate(registries):
        for name, value in ((rate, 10.0), ("fencepost_task_source_lag", 5.0)):
            Gauge(name, "help", ["connector", "task"], registry=registry).labels("a", str(number)).set(value)
        skipped = Gauge("kafka_connect_task_error_total_records_skipped", "help", ["connector"], registry=registry)
        skipped.labels("b").set(2)
    with RestApis() as apis:
        urls = [apis.serve(ModelHerder(), registry=registry).url for registry in registries]
        workers = [*(urlsplit(url).netloc for url in urls), "127.0.0.1:1", "odd"]
        connectors = {"a": {"status": {"tasks": [{"worker_id": worker} for worker in workers]}}}
        client = ConnectClient(urls[0], retry_seconds=0)
        found = apis.call(asyncio.to_thread(figures_of, client, connectors))

    assert found == {"a": Figures(rate=20, lag=10), "b": Figures(skipped=4)}


def test_connectors_are_listed_with_their_figures_and_the_last_error(capsys: pytest.CaptureFixture[str]) -> None:
    parts = {"state": "FAILED", "worker_id": "w"}
    task = {"id": 0, **parts, "trace": "Traceback (most recent call last):\n  File x\nOSError: full\n"}
    status = {"name": "a", "connector": {**parts, "state": "RUNNING"}, "tasks": [task]}
    print_connectors({"a": {"status": status}, "b": {}}, {"a": Figures(rate=1234.4, lag=math.nan, skipped=7)})

    lines = capsys.readouterr().out.splitlines()
    line = next(line for line in lines if " a " in line)
    assert [cell.strip() for cell in line.split("│")[4:-1]] == ["1 FAILED", "w", "1,234", "", "7"]
    assert lines[-2:] == ["a", "    OSError: full"]


def test_unknown_properties_are_reported_with_a_suggestion(run: Run, file: Path) -> None:
    file.write_text(file.read_text().replace('"topic": "lines"', '"topic": "lines", "task.max": "1", "x": "y"'))

    code, out, _ = run("validate", file)

    assert code == 0
    assert out.splitlines()[-2:] == [
        "The property task.max is unknown: did you mean tasks.max?",
        "The property x is unknown",
    ]
    assert json.loads(run("validate", file, "-o", "json")[1])["unknown"] == {"task.max": "tasks.max", "x": None}


@pytest.mark.parametrize("url", ["127.0.0.1:8083", "http://", "ftp://127.0.0.1", "http://[::1"])
def test_an_invalid_address_is_reported(run: Run, url: str) -> None:
    code, _, err = run("list", "--url", url)
    assert code == 2
    assert "is no address of a worker" in err


def test_the_message_says_how_to_trust_a_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, key_store = make_certificate(tmp_path)
    properties = {"listeners": "https://127.0.0.1:0", "listeners.https.ssl.keystore.location": str(key_store)}
    with RestApis() as apis:
        url = apis.serve(ModelHerder(), properties).url
        assert apis.call(asyncio.to_thread(main.run, ["connectors", "list", "--url", url])) == 1
    assert "is not trusted" in (told := capsys.readouterr().err)
    assert "SSL_CERT_FILE" in told


def test_an_unreachable_worker_is_reported_without_the_password(run: Run) -> None:
    code, _, err = run("list", "--url", "http://me:secret@127.0.0.1:1")
    assert code == 1
    assert "http://127.0.0.1:1 cannot be reached" in err
    assert "ssl" not in err
    assert "secret" not in err


def test_a_user_and_a_password_are_sent(
    herder: RebalancingHerder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users").write_text("me=secret\n")
    with RestApis() as apis:
        url = apis.serve(herder, {"rest.basic.auth.credentials.file": str(tmp_path / "users")}).url
        for given, code in ((url, 1), (url.replace("//", "//me:secret@"), 0)):
            assert apis.call(asyncio.to_thread(main.run, ["connectors", "list", "--url", given])) == code
    assert "status 401" in capsys.readouterr().err
