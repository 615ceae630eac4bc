"""`fencepost test --bootstrap-servers` finds the faults of an author's connector in real workers that are killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fencepost.cli.main import cli

ROOT = Path(__file__).parents[2]

# poll() stores its position in a file before the records are committed, which is a mistake.
STATE_IN_A_FILE = """
from pathlib import Path
from tests.conformance.streams import StreamsConnector, StreamsTask

class Task(StreamsTask):
    def start(self, config):
        self.name = config["name"]
        super().start(config)

    def file(self, stream):
        return Path("{folder}") / f"{{self.name}}-{{stream}}"

    def committed(self, stream):
        return int(self.file(stream).read_text()) if self.file(stream).exists() else 0

    def numbers(self, stream):
        numbers = super().numbers(stream)
        if numbers:
            self.file(stream).write_text(str(numbers[-1]))
        return numbers

class Connector(StreamsConnector):
    task = Task

    def task_config(self, streams, number):
        return super().task_config(streams, number) | {{"name": self.context.configs()["name"]}}
"""


# Each value contains the time at which it was read, so it differs after a restart.
READ_AT = """
import time
from fencepost import SourceRecord
from tests.conformance.streams import StreamsConnector, StreamsTask

class Task(StreamsTask):
    def record(self, stream, number):
        value = {"id": f"{stream}{number}", "read_at": time.time_ns()}
        return SourceRecord(self.partition(stream), self.offset(number), self.topic, value=value)

class Connector(StreamsConnector):
    task = Task
"""


def fencepost_test(connector: str, folder: Path, bootstrap_servers: str, topic: str, step: str, *more: str) -> Result:
    config = folder / "connector.properties"
    config.write_text(f"name=c\nconnector.class={connector}\ntopic={topic}\nstreams=a,b,c\n")
    options = ["--config", str(config), "--plugin-path", f"{folder},{ROOT}", "--bootstrap-servers", bootstrap_servers]
    return CliRunner().invoke(cli, ["test", connector, *options, "-k", f"sigkill_{step}", *more])


@pytest.mark.parametrize("step", ["after_end_txn_sent"])
def test_a_correct_connector_passes_the_kill_checks(
    tmp_path: Path, bootstrap_servers: str, topic: str, step: str
) -> None:
    told = fencepost_test("tests.conformance.streams.StreamsConnector", tmp_path, bootstrap_servers, topic, step)

    assert told.exit_code == 0, told.output
    assert f"survives_sigkill_{step}" in told.output
    assert "1 passed" in told.output


def test_a_position_kept_in_a_file_is_reported(tmp_path: Path, bootstrap_servers: str, topic: str) -> None:
    (tmp_path / "filed.py").write_text(STATE_IN_A_FILE.format(folder=tmp_path))

    told = fencepost_test("filed.Connector", tmp_path, bootstrap_servers, topic, "before_end_txn")

    assert told.exit_code == 1, told.output
    assert "5 of 36 record(s) are lost" in told.output
    assert f"{tmp_path}/filed.py:6" in told.output


def test_ignored_fields_may_differ_between_runs(tmp_path: Path, bootstrap_servers: str, topic: str) -> None:
    (tmp_path / "timed_by_workers.py").write_text(READ_AT)

    given = "timed_by_workers.Connector", tmp_path, bootstrap_servers, topic, "before_end_txn"
    told = fencepost_test(*given, "--ignore", "read_at")

    assert told.exit_code == 0, told.output
    assert "1 passed" in told.output
