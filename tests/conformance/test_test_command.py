"""`fencepost test`."""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fencepost.api.errors import ConfigError
from fencepost.cli.main import cli
from fencepost.config.java_plugins import SOURCE_CONNECTOR

CORRECT = "tests.conformance.streams.StreamsConnector"


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "streams.properties"
    file.write_text("name=streams\nconnector.class=x\ntopic=t\nstreams=a,b,c\n")
    return str(file)


def fencepost_test(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["test", *arguments])


def test_a_correct_connector_passes_and_each_check_is_listed(config: str) -> None:
    result = fencepost_test(CORRECT, "--config", config)

    assert result.exit_code == 0, result.output
    assert "resumes_from_every_offset            PASSED" in result.output
    assert "17 passed, 1 skipped in" in result.output


@pytest.mark.parametrize("name", ["org.acme.Source", "java:org.acme.Source", "java:Source"])
def test_a_java_connector_is_refused_with_the_reason(tmp_path: Path, config: str, name: str) -> None:
    (tmp_path / "acme").mkdir()
    with zipfile.ZipFile(tmp_path / "acme" / "a.jar", "w") as archive:
        archive.writestr(f"META-INF/services/{SOURCE_CONNECTOR}", "org.acme.Source")

    result = fencepost_test(name, "--config", config, "--plugin-path", str(tmp_path))

    assert isinstance(result.exception, ConfigError)
    assert f"org.acme.Source in {tmp_path / 'acme'} is a Java connector" in str(result.exception)
    assert "run in workers only" in str(result.exception)


def test_a_failure_is_reported_with_the_line_of_the_connector(tmp_path: Path, config: str) -> None:
    (tmp_path / "too_far.py").write_text(
        "from tests.conformance.streams import StreamsConnector, StreamsTask\n\n"
        "class Task(StreamsTask):\n"
        "    def offset(self, number):\n"
        "        return {'number': number + 1}\n"
        "    def start(self, config):\n"
        "        super().start(config)\n\n"
        "class Connector(StreamsConnector):\n"
        "    task = Task\n"
    )
    result = fencepost_test("too_far.Connector", "--config", config, "--plugin-path", str(tmp_path), "-k", "resumes")

    assert result.exit_code == 1
    assert "resumes_from_every_offset            FAILED" in result.output
    assert "1 record(s) are skipped: 'a': 'a3' (topic t) is returned instead of 'a': 'a2' (topic t)" in result.output
    assert f"{tmp_path}/too_far.py:6\n      def start(self, config):" in result.output
    assert "1 failed in" in result.output


def test_a_connector_that_other_processes_cannot_import_is_not_accused(
    tmp_path: Path, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "here_only.py"
    module.write_text(
        "from tests.conformance.streams import StreamsConnector\n\nclass Connector(StreamsConnector):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("here_only")
    module.unlink()

    result = fencepost_test("here_only.Connector", "--config", config, "-k", "in_any_process")

    assert result.exit_code == 0, result.output
    assert "SKIPPED" in result.output
    assert "in other processes, the connector failed: fencepost.api.errors.ConfigError: " in result.output


READ_AT = (
    "import time\n"
    "from fencepost import SourceRecord\n"
    "from tests.conformance.streams import StreamsConnector, StreamsTask\n\n"
    "class Task(StreamsTask):\n"
    "    def record(self, stream, number):\n"
    "        value = {'id': number, 'meta': {'read_at': time.monotonic_ns()}}\n"
    "        headers = [('read-at', str(time.monotonic_ns()))]\n"
    "        at = self.partition(stream), self.offset(number)\n"
    "        return SourceRecord(*at, self.topic, value=value, key=stream, headers=headers)\n\n"
    "class Connector(StreamsConnector):\n"
    "    task = Task\n"
)


def test_a_field_with_the_time_of_reading_is_named_with_advice(tmp_path: Path, config: str) -> None:
    (tmp_path / "timed.py").write_text(READ_AT)
    result = fencepost_test("timed.Connector", "--config", config, "--plugin-path", str(tmp_path), "-k", "same_again")

    assert result.exit_code == 1
    assert "They differ in meta.read_at and the header read-at" in result.output
    assert "--ignore" in result.output


def test_ignored_fields_are_left_out_of_the_comparison(tmp_path: Path, config: str) -> None:
    (tmp_path / "timed_and_ignored.py").write_text(READ_AT)
    ignored = ["--ignore", "meta.read_at", "--ignore", "read-at"]
    connector = "timed_and_ignored.Connector"
    result = fencepost_test(connector, "--config", config, "--plugin-path", str(tmp_path), *ignored)

    assert result.exit_code == 0, result.output
    assert "17 passed, 1 skipped in" in result.output


def test_an_ignored_field_that_no_record_has_is_refused(config: str) -> None:
    result = fencepost_test(CORRECT, "--config", config, "--ignore", "reed_at")

    assert result.exit_code == 1
    assert "No record has the field or header reed_at" in str(result.exception)


def test_an_unreadable_source_skips_the_checks_that_read_it(tmp_path: Path, config: str) -> None:
    (tmp_path / "unreadable.py").write_text(
        "from tests.conformance.streams import StreamsConnector, StreamsTask\n\n"
        "class Task(StreamsTask):\n"
        "    def poll(self):\n"
        "        raise KeyError('id')\n\n"
        "class Connector(StreamsConnector):\n"
        "    task = Task\n"
    )
    result = fencepost_test("unreadable.Connector", "--config", config, "--plugin-path", str(tmp_path))

    assert "poll() raised an error: KeyError: 'id'" in result.output
    assert "unreadable.py:5\n      raise KeyError('id')" in result.output
    assert "SKIPPED   0.0 s: reads_the_source failed" in result.output


def test_a_filter_that_matches_no_check_is_refused(config: str) -> None:
    result = fencepost_test(CORRECT, "--config", config, "-k", "nonsense")

    assert result.exit_code == 1
    assert "The checks: defines_its_properties" in str(result.exception)
