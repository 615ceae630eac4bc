"""`fencepost standalone` as its users meet it: real processes, signals, and one line for each thing that is wrong."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.main import run
from fencepost.embedded.ports import free_ports
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.processes import Process, wait_for
from tests.support.topics import unique

STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(autouse=True)
def keep_signal_handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class Files:
    """A worker's and a connector's files, and the text file that the connector reads."""

    def __init__(self, folder: Path, bootstrap_servers: str, topic: str) -> None:
        self.group = unique("group")
        self.source = folder / "lines.txt"
        self.worker = folder / "worker.properties"
        self.connector = folder / "lines.properties"
        self._folder = folder
        self.write_worker({"bootstrap.servers": bootstrap_servers})
        self.write_connector({"topic": topic})

    def write_worker(self, settings: dict[str, str]) -> None:
        self._write(
            self.worker,
            {
                "group.id": self.group,
                "key.converter": STRING,
                "value.converter": STRING,
                "offset.storage.topic": f"{self.group}-offsets",
                "offset.storage.partitions": "1",
                "config.storage.topic": f"{self.group}-configs",
                **settings,
            },
        )

    def write_connector(self, settings: dict[str, str]) -> None:
        common = {"name": "lines", "connector.class": "FileStreamSource", "file": str(self.source)}
        self._write(self.connector, {**common, **settings})

    def append(self, first: int, last: int) -> None:
        with self.source.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(first, last + 1))

    @staticmethod
    def _write(path: Path, settings: dict[str, str]) -> None:
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


@pytest.fixture
def files(tmp_path: Path, bootstrap_servers: str, topic: str) -> Files:
    return Files(tmp_path, bootstrap_servers, topic)


def test_sigterm_commits_what_is_open_and_a_later_run_goes_on_from_there(
    files: Files, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    files.append(1, 500)
    files.write_worker({"bootstrap.servers": bootstrap_servers, "offset.storage.file.filename": "/tmp/connect.offsets"})
    files.write_connector(
        {"topic": topic, "transaction.boundary": "interval", "transaction.boundary.interval.ms": "600000"}
    )
    arguments = ("standalone", str(files.worker), str(files.connector))
    with Process.fencepost(*arguments, log_file=tmp_path / "log") as process:
        wait_for(
            lambda: len(read_topic(bootstrap_servers, topic, isolation="read_uncommitted")) >= 500,
            what="all lines are written",
        )
        assert read_topic(bootstrap_servers, topic) == []
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert "offset.storage.file.filename of" in process.output
    assert "Traceback" not in process.output

    files.append(501, 700)
    assert run(["standalone", "--once", str(files.worker), str(files.connector)]) == 0

    found = values(read_topic(bootstrap_servers, topic))
    assert_exactly_once(found, [f"line {number}".encode() for number in range(1, 701)])
    ((_, offset),) = read_offsets(bootstrap_servers, f"{files.group}-offsets", "lines")
    assert offset == {"position": files.source.stat().st_size}


def test_a_connector_file_may_be_json(files: Files, bootstrap_servers: str, topic: str, tmp_path: Path) -> None:
    files.append(1, 3)
    connector = tmp_path / "lines.json"
    config = {"connector.class": "FileStreamSource", "file": str(files.source), "topic": topic, "tasks.max": 1}
    connector.write_text(json.dumps({"name": "lines", "config": config}))

    assert run(["standalone", str(files.worker), str(connector), "--once"]) == 0

    assert values(read_topic(bootstrap_servers, topic)) == [b"line 1", b"line 2", b"line 3"]


@pytest.mark.parametrize(
    ("worker", "connector", "told"),
    [
        (None, {}, "Cannot read .*worker.properties: No such file or directory"),
        ({}, {}, "worker.properties: .*bootstrap.servers"),
        ({"bootstrap.servers": "here"}, {}, "bootstrap.servers"),
        ({"bootstrap.servers": "127.0.0.1:1"}, None, "Cannot read .*lines.properties: No such file or directory"),
        (
            {"bootstrap.servers": "127.0.0.1:1"},
            {"connector.class": "Oracle"},
            "no connector named 'Oracle'.*FileStream",
        ),
        ({"bootstrap.servers": "127.0.0.1:1"}, {"tasks.max": "many"}, "tasks.max"),
        ({"bootstrap.servers": "127.0.0.1:1"}, {"value.converter": "Xml"}, "'Xml'.*JsonConverter"),
    ],
)
def test_a_wrong_configuration_is_told_in_one_line(
    files: Files,
    capsys: pytest.CaptureFixture[str],
    worker: dict[str, str] | None,
    connector: dict[str, str] | None,
    told: str,
) -> None:
    files.worker.unlink() if worker is None else files.write_worker(worker)
    files.connector.unlink() if connector is None else files.write_connector({"topic": "t", **connector})

    assert run(["standalone", str(files.worker), str(files.connector)]) == 1

    assert_one_line(capsys.readouterr().err, told)


def test_brokers_that_are_not_there_are_told_in_one_line(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    files.write_worker({"bootstrap.servers": address, "request.timeout.ms": "1000", "default.api.timeout.ms": "1000"})

    assert run(["standalone", str(files.worker), str(files.connector)]) == 1

    assert_one_line(capsys.readouterr().err, address)


def test_a_task_that_fails_is_told_in_one_line_and_with_a_traceback_to_those_who_ask(
    files: Files, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    arguments = ("standalone", "--once", str(files.worker), str(files.connector))
    with Process.fencepost(*arguments, log_file=tmp_path / "log") as process:
        assert process.wait() == 1
    assert_one_line(process.output, f"Task lines-0 failed: .*{files.source}.*create it first")
    assert read_topic(bootstrap_servers, topic) == []

    with Process.fencepost("--traceback", *arguments, log_file=tmp_path / "log2") as process:
        assert process.wait() == 1
    assert "Traceback" in process.output


def assert_one_line(stderr: str, told: str) -> None:
    assert "Traceback" not in stderr
    (line,) = [line for line in stderr.splitlines() if line.startswith("fencepost: ")]
    assert re.search(told, line), line
