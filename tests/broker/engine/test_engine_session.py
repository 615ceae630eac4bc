"""The JVM runs only while it is needed, and never outlives the worker."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from fencepost.embedded.java import find_java
from tests.support.processes import Process, wait_for

PATIENCE = 500.0
"""Seconds. Two JVMs in turn take ten seconds, but minutes on a busy machine."""

PROGRAM = """
import os, signal, sys, threading, time
from fencepost.engine.engine import SparkEngine
from fencepost.engine.job_failure import JobFailure
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.spark.jobs import Jobs
from fencepost.transforms.chain import Step
from fencepost.transforms.filter import Filter

import psutil

def jvms():
    return [p.pid for p in psutil.Process().children(recursive=True) if "java" in p.name()]

engine = SparkEngine({})
print("before", jvms(), flush=True)
engine.expect(Pipeline((), None, None, None))
engine.expect(Pipeline([Step(Filter())], None, None, None))
numbers = engine.session().range(10, numPartitions=2)
print("sum", sum(b.num_rows for b in numbers.mapInArrow(lambda batches: batches, "id BIGINT").toArrow().to_batches()))
print("JAVA_HOME", os.environ.get("JAVA_HOME"))
print("running", *[p.pid for p in psutil.Process().children(recursive=True)], flush=True)
if sys.argv[1] == "stop":
    engine.session().stop()
    again = engine.session().range(10, numPartitions=2)
    print("after stop()", again.mapInArrow(lambda batches: batches, "id BIGINT").count(), flush=True)
    engine.session().sparkContext._jsc.stop()
    print("after a stop in the JVM", engine.session().range(11).toArrow().num_rows, len(jvms()), flush=True)
    engine.stop()
    print("stopped", psutil.Process().children(recursive=True), flush=True)
    print("again", engine.session().range(10).count(), flush=True)
    try:
        engine.session().sql("SELECT nothing")
    except Exception as error:
        unknown = error
    try:
        with Jobs().running(engine.session(), "task", threading.Event()):
            context = engine.session().sparkContext
            engine.stop()
            context.setJobGroup("late", "a job of a task that still runs")
    except Exception as error:
        print("stopped in a job:", type(error).__name__, error, flush=True)
    print("told later:", JobFailure.of(unknown).one_line, flush=True)
    engine.session()
    for pid in jvms():
        os.kill(pid, signal.SIGTERM)
    engine.stop()
    print("stopped after its JVM", psutil.Process().children(recursive=True), flush=True)
    engine.session().stop()
    engine.stop()
    print("stopped after its session", psutil.Process().children(recursive=True), flush=True)
time.sleep(600 if sys.argv[1] == "wait" else 0)
"""


def start(tmp_path: Path, what: str) -> Process:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    return Process([sys.executable, str(program), what], tmp_path / f"{what}.log", environment={"JAVA_HOME": ""})


def processes_of(output: str) -> list[psutil.Process]:
    line = next(line for line in output.splitlines() if line.startswith("running "))
    return [psutil.Process(int(pid)) for pid in line.split()[1:] if psutil.pid_exists(int(pid))]


def test_spark_starts_late_stops_wholly_and_starts_again(tmp_path: Path):
    with start(tmp_path, "stop") as process:
        assert process.wait(PATIENCE) == 0, process.output
        lines = process.output.splitlines()
    assert "before []" in lines
    assert "after stop() 10" in lines
    assert "after a stop in the JVM 11 1" in lines
    assert "stopped []" in lines
    assert "again 10" in lines
    assert any(line.startswith("stopped in a job: SparkJobError Spark was stopped while it ran") for line in lines)
    assert any(line.startswith("told later: [UNRESOLVED_COLUMN") for line in lines)
    assert "stopped after its JVM []" in lines
    assert "stopped after its session []" in lines
    assert "Warning" not in process.output


def test_neither_jvm_nor_python_workers_outlive_a_killed_worker(tmp_path: Path):
    with start(tmp_path, "wait") as process:
        process.wait_for_output("running ", PATIENCE)
        children = processes_of(process.output)
        assert len(children) >= 2
        process.signal(signal.SIGKILL)
        process.wait()
        wait_for(lambda: not any(child.is_running() for child in children), what="Spark's processes to end")


def test_spark_says_nothing_unless_something_is_wrong(tmp_path: Path):
    with start(tmp_path, "exit") as process:
        assert process.wait(PATIENCE) == 0, process.output
    expected = ("before", "sum", "JAVA_HOME", "running")
    said = [line for line in process.output.splitlines() if not line.startswith(expected)]
    assert said == []


STOPPED_IN_AN_UPDATE = """
import os, sys, threading, time
from pathlib import Path
from pyspark.accumulators import AccumulatorParam
from fencepost.engine.engine import SparkEngine

updating, driver = sys.argv[1], os.getpid()

class SlowSum(AccumulatorParam):
    def zero(self, value):
        return value

    def addInPlace(self, value, update):
        if os.getpid() == driver:
            Path(updating).touch()
            time.sleep(1)
        return value + update

def run_job():
    try:
        context.parallelize(range(2), 2).foreach(lambda n: total.add(1))
    except Exception:
        print("job ended", flush=True)

engine = SparkEngine({})
context = engine.session().sparkContext
total = context.accumulator(0, SlowSum())
job = threading.Thread(target=run_job)
job.start()
while not Path(updating).exists():
    time.sleep(0.05)
engine.stop()
job.join()
"""


def test_a_stop_while_spark_updates_an_accumulator_is_silent(tmp_path: Path):
    command = [sys.executable, "-c", STOPPED_IN_AN_UPDATE, str(tmp_path / "updating")]
    with Process(command, tmp_path / "log") as process:
        assert process.wait(PATIENCE) == 0, process.output
    assert process.output.splitlines() == ["job ended"]


JAVA_THAT_HANGS = """#!/bin/sh
case "$*" in
  *-version*) echo 'openjdk version "17.0.1"' >&2; exit 0 ;;
esac
echo $$ > {started}
exec sleep 3600
"""

STOPPED_WHILE_IT_STARTS = """
import sys, time
from pathlib import Path
from fencepost.engine.engine import SparkEngine
from fencepost.engine.pipeline import Pipeline
from fencepost.transforms.chain import Step
from fencepost.transforms.filter import Filter

engine = SparkEngine({})
engine.expect(Pipeline([Step(Filter())], None, None, None))
while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
engine.stop()
print("stopped", engine.started)
"""


def test_a_stop_does_not_wait_for_a_jvm_that_is_being_started(tmp_path: Path):
    home, started = tmp_path / "java", tmp_path / "started"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(JAVA_THAT_HANGS.format(started=started))
    (home / "bin" / "java").chmod(0o700)
    command = [sys.executable, "-c", STOPPED_WHILE_IT_STARTS, str(started)]
    try:
        with Process(command, tmp_path / "log", environment={"JAVA_HOME": str(home)}) as process:
            assert process.wait(PATIENCE) == 0, process.output
            assert "stopped False" in process.output
            assert psutil.pid_exists(int(started.read_text()))
    finally:
        with suppress(FileNotFoundError, psutil.NoSuchProcess):
            psutil.Process(int(started.read_text())).kill()


JAVA_THAT_FAILS_FIRST = """#!/bin/sh
case "$*" in
  *-version*) echo 'openjdk version "17.0.1"' >&2; exit 0 ;;
esac
[ -e {started}.works ] && exec '{java}' "$@"
touch {started}
while [ -e {started} ]; do sleep 0.1; done
exit 1
"""

STARTED_AFTER_A_STOP = """
import sys, time
from pathlib import Path
from threading import Thread
from fencepost.engine.errors import SparkStartError
from fencepost.engine.spark.session import LazySession

def fail():
    try:
        session.get()
    except SparkStartError as error:
        print("failed:", error)

session, started = LazySession({}), Path(sys.argv[1])
starting = Thread(target=fail)
starting.start()
while not started.exists():
    time.sleep(0.1)
session.stop()
started.unlink()
starting.join()
Path(f"{started}.works").touch()
print("rows", session.get().range(7).count())
session.stop()
"""


def test_a_start_that_failed_as_spark_was_stopped_is_forgotten(tmp_path: Path):
    home, started = tmp_path / "java", tmp_path / "started"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(JAVA_THAT_FAILS_FIRST.format(started=started, java=find_java().executable))
    (home / "bin" / "java").chmod(0o700)
    command = [sys.executable, "-c", STARTED_AFTER_A_STOP, str(started)]
    with Process(command, tmp_path / "log", environment={"JAVA_HOME": str(home)}) as process:
        assert process.wait(PATIENCE) == 0, process.output
        assert "failed:" in process.output
        assert "rows 7" in process.output


ANOTHER_STARTS_AFTER_A_STOP = """
import time
from pyspark import SparkContext
from fencepost.engine.spark import session
from fencepost.engine.spark.session import LazySession

session._STARTING_SECONDS = 0.0
first, second = LazySession({}), LazySession({})
first.warm_up()
while SparkContext._active_spark_context is None:
    time.sleep(0.001)
first.stop()
print("rows", second.get().range(7).count())
second.stop()
"""


def test_a_session_starts_after_another_that_was_stopped_as_it_started(tmp_path: Path):
    with Process([sys.executable, "-c", ANOTHER_STARTS_AFTER_A_STOP], tmp_path / "log") as process:
        assert process.wait(PATIENCE) == 0, process.output
        assert "rows 7" in process.output
