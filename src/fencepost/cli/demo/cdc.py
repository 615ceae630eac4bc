"""`fencepost demo-cdc`: sends a bank's transfers from PostgreSQL to Kafka, none in part, killing the worker twice."""

from __future__ import annotations

import time
from typing import Final

import click
from rich.console import Console

from fencepost.api.errors import FencepostError
from fencepost.cli.demo.bank import PREFIX, TABLES, Bank
from fencepost.cli.demo.cdc_check import BankFindings, check, print_findings
from fencepost.cli.demo.workers import KILLS, DemoServers

TELLERS: Final = 4
COMMITS: Final = 20, 60
"""The smallest and the largest number of commits in Kafka between two kills of the worker; the number is random."""

_CONNECTOR: Final = """\
name=bank
topic.prefix={prefix}
slot.name=bank
table.include.list={tables}
"""


@click.command(name="demo-cdc")
def demo_cdc() -> None:
    """Send a bank's transfers from PostgreSQL to Kafka exactly once, killing the worker twice."""
    console = Console()
    with DemoServers.running(console) as servers:
        findings = _run(console, servers)
    print_findings(console, findings)
    if not findings.exactly_once:
        raise FencepostError("The demo found lost, doubled or torn transfers: this must never happen, please report it")


def _run(console: Console, servers: DemoServers) -> BankFindings:
    tables = ",".join(table.replace(".", "\\\\.") for table in TABLES)
    worker = servers.worker(_CONNECTOR.format(prefix=PREFIX, tables=tables))
    bank = Bank(servers.postgres.conninfo())
    console.print(f"{TELLERS} tellers transfer money between {bank.accounts} accounts in two tables.")
    started = time.monotonic()
    with bank.writing(TELLERS) as done:
        worker.run_with_kills(console, bank.slot_position, COMMITS, lambda: f"{done():,} transfers")
        console.print(f"{done():,} transfers are committed in PostgreSQL.")
    console.print("The tellers are done; the worker reads the rest.")
    worker.drain()
    seconds = time.monotonic() - started
    console.print("Replaying the topics, one Kafka transaction after the other, with an independent client ...")
    return check(servers.bootstrap, bank, kills=KILLS, seconds=seconds)
