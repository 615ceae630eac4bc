"""`fencepost test`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fencepost.cli.main import cli

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
    assert "16 passed, 1 skipped in" in result.output


def test_a_failure_is_told_with_the_line_of_the_connector(tmp_path: Path, config: str) -> None:
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


def test_an_unreadable_source_skips_what_reads_it(tmp_path: Path, config: str) -> None:
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


def test_a_text_that_no_check_has_is_refused(config: str) -> None:
    result = fencepost_test(CORRECT, "--config", config, "-k", "nonsense")

    assert result.exit_code == 1
    assert "The checks: defines_its_properties" in str(result.exception)
