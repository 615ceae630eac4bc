"""A Java task polls ahead of the worker, but not without limits, and not once it stops."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fencepost.embedded.jars import class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import CONNECT, SOURCES
from tests.support.java_plugins import compile_java

DRIVER = Path(__file__).parents[2] / "support" / "java" / "ahead" / "AheadPolls.java"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the driver prints: the answers to a worker that asks again and again, and how many polls there were after each."""
    folder = tmp_path_factory.mktemp("classes")
    compile_java([*SOURCES.glob("*.java"), DRIVER], CONNECT, folder)
    java = find_java()
    jars = os.pathsep.join(map(str, (folder, *class_path(java, CONNECT))))
    command = [str(java.executable), "-Xmx64m", "-XX:+UseSerialGC", "-cp", jars, "fencepost.host.AheadPolls"]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stdout.splitlines()


def test_four_polls_wait_at_most(printed: list[str]):
    assert printed[0] == "nothing after 4, records after 5, records after 6"


def test_polls_of_8_mib_wait_at_most(printed: list[str]):
    assert printed[1] == "nothing after 3, records after 4, records after 5"


def test_a_task_that_looks_at_commits_is_polled_when_the_worker_asks(printed: list[str]):
    assert printed[2] == "nothing after 1, records after 1, nothing after 2, records after 2"


def test_a_task_without_records_is_polled_when_the_worker_asks(printed: list[str]):
    assert printed[3] == "nothing after 1, nothing after 2, nothing after 3"


def test_a_failure_comes_after_the_records_before_it(printed: list[str]):
    assert printed[4] == "nothing after 2, records after 2, refused after 2, nothing after 6"


def test_a_task_that_stops_is_not_polled_again(printed: list[str]):
    assert (
        printed[5]
        == "records after 4, records after 4, records after 4, records after 4, nothing after 4, nothing after 4"
    )


def test_until_the_first_records_are_sent_one_other_poll_begins_at_most(printed: list[str]):
    assert printed[6:] == ["5 11", "2"]
