"""A task in the JVM: records that it keeps for a commit, even of transactions larger than its heap; its last poll."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fencepost.embedded.jars import class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import CONNECT, SOURCES
from tests.support.java_plugins import compile_java

DRIVERS = Path(__file__).parents[2] / "support" / "java" / "waiting"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    compile_java([*SOURCES.glob("*.java"), *DRIVERS.glob("*.java")], CONNECT, folder)
    return folder


def printed(classes: Path, driver: str, *arguments: str) -> list[str]:
    """The output of a driver with a heap of 48 MB."""
    java = find_java()
    jars = os.pathsep.join(map(str, (classes, *class_path(java, CONNECT))))
    command = [str(java.executable), "-Xmx48m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars]
    command += [f"fencepost.host.{driver}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def committed(classes: Path, task: str, *polls: int) -> list[str]:
    """The output of a task with this many polls for each transaction, and a value of 50 kB in each poll."""
    return printed(classes, "OpenTransaction", task, *map(str, polls))


def test_of_debeziums_records_the_latest_of_each_database_is_kept(classes: Path):
    assert committed(classes, "io.debezium.connector.common.BaseSourceTask", 2_001, 1, 3) == [
        *("b 1999", "a 2000"),
        "b 2001",
        *("b 2003", "a 2004"),
    ]


def test_of_other_tasks_the_records_and_their_sizes_are_kept(classes: Path):
    assert committed(classes, "fencepost.host.PlacedTask", 2_000, 3) == ["2000 2000", "2003 2003"]


def test_of_source_partitions_that_are_the_same_in_json_the_last_offset_is_the_last(classes: Path):
    assert printed(classes, "EqualPartitions") == [r'["{\"p\":1}","{\"at\":3}"]']


AFTER_COMMIT = ["keep at 7", "drop at null", "keep at 8", "commit"]


@pytest.mark.parametrize(
    ("task", "calls"),
    [
        # Its next poll begins at once.
        pytest.param("CallOrder$Polled", ["commits false", "poll 1", "poll 2", "poll 3"], id="none"),
        pytest.param("CallOrder$Older", ["commits false", "poll 1", "poll 2", "poll 3"], id="older"),
        pytest.param("CallOrder$OfCommits", ["commits true", "poll 1", "commit", "poll 2"], id="commit"),
        pytest.param("CallOrder$OfBoth", ["commits true", "poll 1", *AFTER_COMMIT, "poll 2"], id="both"),
        # Its `commit` means the records that `commitRecord` was called for.
        pytest.param(
            "org.apache.kafka.connect.mirror.MirrorTask",
            ["commits true", "poll 1", "poll 2", *AFTER_COMMIT, "poll 3"],
            id="mirror",
        ),
    ],
)
def test_only_a_task_that_may_be_is_polled_before_the_commit_of_its_last_poll(
    classes: Path, task: str, calls: list[str]
):
    name = task if "." in task else f"fencepost.host.{task}"
    assert printed(classes, "CallOrder", name) == calls


def test_a_task_is_not_polled_after_its_stop(classes: Path):
    assert printed(classes, "StoppedTask") == ["start", "poll", "stop"]
