"""`fencepost demo-cdc`: a bank's transfers go from PostgreSQL to Kafka, each whole, while the worker is killed twice."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.api.extras import how_to_install
from fencepost.cli.demo.bank import PREFIX, TABLES, Bank
from fencepost.cli.demo.cdc_check import BankFindings, check, print_findings
from fencepost.cli.demo.workers import DemoWorker
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.postgres import EmbeddedPostgres

TELLERS: Final = 4
COMMITS: Final = 20, 60
"""After how many commits in Kafka, about, the worker is killed: at a random number between these."""

KILLS: Final = 2

_STOP_SECONDS: Final = 30.0

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


@click.command(name="demo-cdc")
def demo_cdc() -> None:
    """Send a bank's transfers from PostgreSQL to Kafka exactly once, killing the worker twice."""
    console = Console()
    for package, extra in (("psycopg", "postgres"), ("confluent_kafka", "demo")):
        if find_spec(package) is None:
            raise ConfigError(f"The demo needs the package {package}: run: {how_to_install(extra)}")
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
    console.print("The tellers are done; the worker reads the rest.")
    files.drain()
    seconds = time.monotonic() - started
    console.print("Replaying the topics, one Kafka transaction after the other, with an independent client ...")
    findings = check(bootstrap, bank, kills=kills, seconds=seconds)
    bank.close()
    return findings


def _lay_out(folder: Path, postgres: EmbeddedPostgres, bootstrap: str) -> DemoWorker:
    tables = ",".join(table.replace(".", "\\\\.") for table in TABLES)
    return DemoWorker.lay_out(folder, bootstrap, _CONNECTOR.format(port=postgres.port, prefix=PREFIX, tables=tables))


def _work_with_kills(console: Console, files: DemoWorker, bank: Bank) -> int:
    """Let the tellers work while the worker is killed and restarted; return how often it was."""
    with bank.tellers(TELLERS) as done:
        for _ in range(KILLS):
            with files.running() as worker:
                files.wait_for_commits(worker, bank.slot_position, COMMITS)
            console.print(f"Worker {worker.pid} killed (SIGKILL) after {done():,} transfers; restarting.")
        with files.running() as worker:
            files.wait_for_commits(worker, bank.slot_position, COMMITS)
            worker.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                worker.wait(_STOP_SECONDS)
        console.print(f"{done():,} transfers are committed in PostgreSQL.")
    return KILLS
