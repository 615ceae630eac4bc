"""The JVM writes records as JSON without a tree of nodes, with Kafka Connect's JsonConverter's bytes and errors."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fencepost.embedded.jars import class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import CONNECT, SOURCES
from tests.support.java_plugins import compile_java

DRIVERS = Path(__file__).parents[2] / "support" / "java" / "json"
COUNT = 10_000


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    compile_java([*SOURCES.glob("*.java"), *DRIVERS.glob("*.java")], CONNECT, folder)
    return folder


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param([], id="the defaults"),
        pytest.param(["schemas.enable=false"], id="without schemas"),
        pytest.param(["decimal.format=numeric", "schemas.cache.size=2"], id="decimals as numbers"),
        pytest.param(["replace.null.with.default=false"], id="nulls stay"),
        pytest.param(["schemas.enable=false", "replace.null.with.default=false"], id="nulls stay without schemas"),
    ],
)
def test_random_records_have_the_bytes_and_errors_of_json_converter(properties: list[str], classes: Path):
    done = run("JsonComparison", classes, "1", str(COUNT), *properties)
    refused, left = map(int, done.split())
    assert COUNT / 50 < refused < COUNT / 2
    assert left == 0


def test_schema_in_many_places_of_another_takes_no_memory_for_each(classes: Path):
    assert run("JsonOfSharedSchemas", classes).split() == ['{"left":null,"right":null}'] * 2


def test_wide_schemas_that_are_equal_but_not_the_same_do_not_fill_the_heap(classes: Path):
    assert run("JsonOfEqualSchemas", classes).split() == ["3000"]


def run(driver: str, classes: Path, *arguments: str) -> str:
    java = find_java()
    jars = os.pathsep.join(map(str, (classes, *class_path(java, CONNECT))))
    command = [
        str(java.executable),
        "-XX:+UseSerialGC",
        "-Xmx256m",
        "-cp",
        jars,
        f"fencepost.host.{driver}",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:10_000]
    return done.stdout
