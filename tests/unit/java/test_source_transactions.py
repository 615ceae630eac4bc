"""transaction.boundary=source ends a Kafka transaction only where no database transaction of the task is open."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fencepost.embedded.jars import class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import CONNECT, SOURCES
from tests.support.java_plugins import compile_java

DRIVER = Path(__file__).parents[2] / "support" / "java" / "SourcePolls.java"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    compile_java(
        [*(SOURCES / f"{name}.java" for name in ("Boundaries", "SourceTransactions")), DRIVER], CONNECT, folder
    )
    return folder


@pytest.mark.parametrize(
    "polls",
    [
        pytest.param(["a a |", "a |"], id="rows outside of transactions end with their poll"),
        pytest.param(["a+ a a- a+ a a- |", "a |"], id="one end for all whole transactions of a poll"),
        pytest.param(["a+ a a- | a+ a", "a", "a a- |"], id="a transaction over several polls ends with its END"),
        pytest.param(["a a a- | a+"], id="the rest of a transaction that began before"),
        pytest.param(["a+ b+ a a- b", "b b- |"], id="the end of one database within a transaction of another"),
        pytest.param(["a+ a b+ b", "a a-", "a+ a b-", "b a- |"], id="transactions of two databases that overlap"),
        pytest.param(["a+ a", "b+ b b-", "b", "a- | b+ b"], id="one database waits for the other"),
        pytest.param(["a+ a", "a+ a a- |"], id="a transaction that begins again"),
    ],
)
def test_a_kafka_transaction_ends_where_no_database_is_within_one(polls: list[str], classes: Path):
    java = find_java()
    jars = os.pathsep.join(map(str, (classes, *class_path(java, CONNECT))))
    command = [
        str(java.executable),
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        jars,
        "fencepost.host.SourcePolls",
    ]
    given = "".join(poll.replace(" |", "") + "\n" for poll in polls)
    assert subprocess.run(command, input=given, check=True, capture_output=True, text=True).stdout.splitlines() == polls
