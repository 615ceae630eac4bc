"""The Spark sessions of a program that embeds fencepost. They come and go, and so do the worker's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.processes import Process

PATIENCE = 500.0
"""Seconds. A JVM takes some, but many more on a machine that does other things as well."""

PROLOGUE = """
from pyspark import SparkContext
from pyspark.sql import SparkSession
from fencepost.engine.errors import SparkStartError
from fencepost.engine.spark.session import LazySession
from fencepost.engine.spark.session_settings import session_settings

def of_program():
    settings = {name: value for name, value in session_settings({}).items() if value is not None}
    return SparkSession.builder.config(map=settings).getOrCreate()

def jvm():
    return SparkContext._gateway.proc.pid
"""

TAKES_ITS_NEXT = """
session = LazySession({})
first = of_program()
assert session.get() is first
first.stop()
second = of_program()
print("takes the next", session.get().sparkContext is second.sparkContext)
print("rows", second.range(3).count())
session.stop()
print("rows after the stop", second.range(4).count())
second.stop()
"""

STOPPED_AFTER_ANOTHER = """
session = LazySession({})
session.get().stop()
second = of_program()
session.stop()
print("rows", second.range(3).count())
second.stop()
"""

CANNOT_START = """
of_program().stop()
before = jvm()
try:
    LazySession({"spark.master": "nonsense"}).get()
except SparkStartError as error:
    print("refused:", error)
print("same JVM", jvm() == before)
print("rows", of_program().range(3).count())
"""

DEAD_JVM = """
of_program().stop()
before = SparkContext._gateway.proc
before.kill()
before.wait()
session = LazySession({})
print("rows", session.get().range(3).count())
session.stop()
"""

DEAD_SESSION = DEAD_JVM.replace("of_program().stop()", "of_program()")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (TAKES_ITS_NEXT, ["takes the next True", "rows 3", "rows after the stop 4"]),
        (STOPPED_AFTER_ANOTHER, ["rows 3"]),
        (CANNOT_START, ["same JVM True", "rows 3"]),
        (DEAD_JVM, ["rows 3"]),
        (DEAD_SESSION, ["rows 3"]),
    ],
    ids=[
        "takes its next session",
        "stops after another one",
        "cannot start in its JVM",
        "replaces its dead JVM",
        "replaces its dead session",
    ],
)
def test_the_session_of_a_program_is_left_alone(tmp_path: Path, program: str, said: list[str]):
    with Process([sys.executable, "-c", PROLOGUE + program], tmp_path / "log") as process:
        assert process.wait(PATIENCE) == 0, process.output
        lines = process.output.splitlines()
    assert set(said) <= set(lines), process.output
