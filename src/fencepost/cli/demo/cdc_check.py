"""The check of the bank's demo: replays the topics, one Kafka transaction after the other, with an independent client."""

from __future__ import annotations

import bisect
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from fencepost.cli.common.independent_client import ends_of, read
from fencepost.cli.common.tables import print_figures
from fencepost.cli.demo.bank import CHECKING, PREFIX, SAVINGS, TABLES, TRANSFERS, Bank
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.fetch_decoder import TransactionMarker
from fencepost.kafka.consumer.transaction_markers import read_transaction_markers

Event = tuple[str, Any, Any]
"""An event of the topics: table, key and value."""

_NO_ROW: Final[dict[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class BankFindings:
    """The result of comparing the topics with the tables."""

    transfers: int
    found: int
    misfits: int
    """The number of events that do not fit the rows before them: some event was lost or duplicated."""
    torn: int
    """The number of database transactions whose events are in several Kafka transactions."""
    wrong_sums: int
    """The number of Kafka transactions after which the sum of all balances is wrong."""
    different_rows: int
    changes: int
    committed: int
    aborted: int
    kills: int
    seconds: float

    @property
    def exactly_once(self) -> bool:
        """Whether the topics match the tables at each moment that a reader can see."""
        wrong = self.misfits + self.torn + self.wrong_sums + self.different_rows
        return wrong == 0 and self.found == self.transfers


def check(bootstrap: str, bank: Bank, *, kills: int, seconds: float) -> BankFindings:
    """Replay the topics and compare them with the tables."""
    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap}, where="the demo")
    markers = [marker for table in TABLES for marker in read_transaction_markers(client, f"{PREFIX}.{table}")]
    replay = _Replay(bank.total)
    for transaction, events in _by_transaction(client, markers):
        replay.apply(transaction, events)
    rows = {table: bank.rows(table) for table in TABLES}
    different = sum(
        rows[table].get(key) != replay.rows[table].get(key)
        for table in TABLES
        for key in rows[table].keys() | replay.rows[table].keys()
    )
    return BankFindings(
        transfers=len(rows[TRANSFERS]),
        found=len(replay.rows[TRANSFERS]),
        misfits=replay.misfits,
        torn=len(replay.torn),
        wrong_sums=replay.wrong_sums,
        different_rows=different,
        changes=replay.changes,
        committed=len({marker.transaction for marker in markers if marker.committed}),
        aborted=len({marker.transaction for marker in markers if not marker.committed}),
        kills=kills,
        seconds=seconds,
    )


class _Replay:
    """The tables as a reader of all topics sees them after each Kafka transaction."""

    def __init__(self, total: int) -> None:
        self.rows: dict[str, dict[int, dict[str, Any]]] = {table: {} for table in TABLES}
        self.torn: set[int] = set()
        self.misfits = self.wrong_sums = self.changes = 0
        self._total = total
        self._sum = 0
        self._whole: dict[int, tuple[int, int]] = {}

    def apply(self, transaction: tuple[int, int], events: list[Event]) -> None:
        """Apply the events of a Kafka transaction."""
        for table, key, value in events:
            self.changes += 1
            xid = value["source"]["txId"]
            if xid is not None and self._whole.setdefault(xid, transaction) != transaction:
                self.torn.add(xid)
            rows, after = self.rows[table], value["after"]
            former = rows.get(key["id"], _NO_ROW)
            self.misfits += bool(former) != (value["op"] == "u")
            rows[key["id"]] = after
            if table in (CHECKING, SAVINGS):
                self._sum += after["balance"] - former.get("balance", 0)
        self.wrong_sums += self._sum != self._total


def _by_transaction(
    client: ClientConfig, markers: list[TransactionMarker]
) -> Iterator[tuple[tuple[int, int], list[Event]]]:
    """Yield the events of each transaction. The producer epoch of a transactional id grows with each transaction."""
    of_partition: defaultdict[tuple[str, int], list[TransactionMarker]] = defaultdict(list)
    for marker in markers:
        of_partition[marker.topic, marker.partition].append(marker)
    events: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for table in TABLES:
        topic = f"{PREFIX}.{table}"
        for message in read(client, topic, ends_of(client, topic)):
            ends = of_partition[topic, message.partition() or 0]
            end = ends[bisect.bisect(ends, message.offset() or 0, key=lambda marker: marker.offset)]
            key, value = json.loads(message.key() or b"null"), json.loads(message.value() or b"null")
            events[end.transaction].append((table, key, value))
    yield from sorted(events.items())


def print_findings(console: Console, findings: BankFindings) -> None:
    """Print the findings, and commands to try next."""
    rows = (
        ("transfers in PostgreSQL", f"{findings.transfers:,}"),
        ("transfers found at read_committed", f"{findings.found:,}"),
        ("changes that do not fit the rows before them", f"{findings.misfits:,}"),
        ("transactions of the database torn apart", f"{findings.torn:,}"),
        ("Kafka transactions after which the sum of balances differs", f"{findings.wrong_sums:,}"),
        ("rows that differ between tables and replayed topics", f"{findings.different_rows:,}"),
        ("worker killed with SIGKILL", f"{findings.kills}"),
        ("transactions committed", f"{findings.committed:,}"),
        ("transactions aborted", f"{findings.aborted:,}"),
        ("changes", f"{findings.changes:,}"),
        ("changes/s, with the kills and restarts", f"{findings.changes / findings.seconds:,.0f}"),
    )
    print_figures(console, "Exactly once, and whole?", rows)
    console.print("Try next: docs/connectors/postgres.md, for your own database", soft_wrap=True)
