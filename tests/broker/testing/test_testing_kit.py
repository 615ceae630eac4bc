"""`run_connector`: a whole worker on a broker."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fencepost import DataError, SourceConnector, SourceRecord, SourceTask
from fencepost.api.errors import PluginError
from fencepost.api.traces import format_trace
from fencepost.testing import run_connector
from tests.support.checker import read_topic, values
from tests.support.numbers import NumbersConnector
from tests.support.topics import unique


def test_a_second_run_of_a_name_resumes(bootstrap_servers: str, topic: str) -> None:
    name = unique("connector")
    with run_connector(NumbersConnector, {"topic": topic, "end": "6"}, bootstrap_servers, name=name) as running:
        first = running.wait_for_records(topic, 6)
    with run_connector(
        NumbersConnector, {"topic": topic, "end": "9"}, bootstrap_servers, name=name, stop_at_end=True
    ) as running:
        running.wait_until_ended()

    assert [record.value for record in first] == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert values(read_topic(bootstrap_servers, topic)) == [str(number).encode() for number in range(1, 10)]


class RefusingTask(SourceTask):
    """Raises in start()."""

    def start(self, config: object) -> None:
        del config
        raise DataError("the source is of another format")

    def poll(self) -> None:
        raise AssertionError


class RefusingConnector(SourceConnector):
    def task_class(self) -> type[SourceTask]:
        return RefusingTask


def test_the_error_of_a_failed_task_is_raised(bootstrap_servers: str, topic: str) -> None:
    with (
        run_connector(RefusingConnector, {"topic": topic}, bootstrap_servers) as running,
        pytest.raises(DataError, match="of another format"),
    ):
        running.wait_for_records(topic, 1)


class DatedTask(SourceTask):
    """Has a datetime in its source offset."""

    def start(self, config: object) -> None:
        del config

    def poll(self) -> list[SourceRecord]:
        return [SourceRecord({"table": "a"}, {"at": datetime(2024, 1, 1, tzinfo=UTC)}, self.context.configs()["topic"])]


class DatedConnector(SourceConnector):
    def task_class(self) -> type[SourceTask]:
        return DatedTask


def test_an_offset_that_cannot_be_stored_is_reported_with_the_line_of_poll(bootstrap_servers: str, topic: str) -> None:
    line = DatedTask.poll.__code__.co_firstlineno
    with (
        run_connector(DatedConnector, {"topic": topic}, bootstrap_servers) as running,
        pytest.raises(
            PluginError, match=f"{__file__}:{line}, returned an offset that cannot be stored .*'at'"
        ) as failed,
    ):
        running.wait_for_records(topic, 1)
    # Frames of the worker are left out of the trace: they do not help the connector's author.
    assert len(format_trace(failed.value).splitlines()) == 1


def test_missing_records_are_counted(bootstrap_servers: str, topic: str) -> None:
    with (
        run_connector(NumbersConnector, {"topic": topic, "end": "0"}, bootstrap_servers) as running,
        pytest.raises(TimeoutError, match="has 0 records after 0 s, not 1"),
    ):
        running.wait_for_records(topic, 1, timeout_s=0)


PLUGIN_TEST = """
from fencepost.testing import run_connector
from tests.support.numbers import NumbersConnector

def test_numbers(fencepost_broker):
    with run_connector(NumbersConnector, {"topic": "TOPIC", "end": "3"}, fencepost_broker.bootstrap_servers) as running:
        assert len(running.wait_for_records("TOPIC", 3)) == 3
"""


def test_the_pytest_plugin_uses_a_running_broker(tmp_path: Path, bootstrap_servers: str, topic: str) -> None:
    (tmp_path / "test_numbers.py").write_text(PLUGIN_TEST.replace("TOPIC", topic))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "--fencepost-bootstrap-servers", bootstrap_servers, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
