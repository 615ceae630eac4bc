"""A task in the JVM: what it keeps for a commit, where a transaction may be larger than its heap, and its last poll."""

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
    """What a driver prints in a heap of 48 MB."""
    java = find_java()
    jars = os.pathsep.join(map(str, (classes, *class_path(java, CONNECT))))
    command = [str(java.executable), "-Xmx48m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars]
    command += [f"fencepost.host.{driver}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def committed(classes: Path, task: str, *polls: int) -> list[str]:
    """What a task prints, polled so often for each transaction, with 50 kB of a value in each poll."""
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


def test_a_task_is_not_polled_after_its_stop(classes: Path):
    assert printed(classes, "StoppedTask") == ["start", "poll", "stop"]
