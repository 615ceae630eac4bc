"""`fencepost demo-outbox`: an orders service writes each order with its events; Kafka has every event once.

In one transaction, the service inserts an order into one table, and two events about this order into another table, the
outbox. It rolls some of them back. The worker is killed twice. Then an independent client compares the topics with the
orders.
"""

from __future__ import annotations

import bisect
import json
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, Final

import click
from rich.console import Console

from fencepost.api.errors import FencepostError
from fencepost.cli.common.tables import print_figures
from fencepost.cli.demo.database_writers import PostgresWriters
from fencepost.cli.demo.workers import KILLS, DemoServers
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.fetch_decoder import TransactionMarker
from fencepost.kafka.consumer.transaction_markers import read_transaction_markers

ORDERS, CUSTOMERS = "outbox.event.order", "outbox.event.customer"
SERVERS: Final = 3
"""The number of threads of the orders service."""

COMMITS: Final = 3, 8
"""A kill of the worker follows about this many commits in Kafka: a random number between these two."""

_TABLES: Final = b"""
CREATE TABLE public.orders (id bigserial PRIMARY KEY, customer int NOT NULL, total int NOT NULL);
CREATE TABLE public.outbox (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL, aggregateid text NOT NULL,
    type text NOT NULL, payload jsonb
);
"""
_ORDER: Final = b"""
WITH placed AS (INSERT INTO public.orders (customer, total) VALUES (%(customer)s, %(total)s) RETURNING *)
INSERT INTO public.outbox (aggregatetype, aggregateid, type, payload)
SELECT 'order', id::text, 'OrderPlaced', jsonb_build_object('order', id, 'total', total) FROM placed
UNION ALL
SELECT 'customer', customer::text, 'Charged', jsonb_build_object('order', id, 'amount', total) FROM placed
"""
_CONNECTOR: Final = """\
name=outbox
topic.prefix=shop
slot.name=outbox
table.include.list=public\\\\.outbox
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
transforms.outbox.table.expand.json.payload=true
transforms.outbox.table.fields.additional.placement=type:header:eventType
"""


@dataclass(frozen=True, slots=True)
class OutboxFindings:
    """The result of comparing the topics with the orders."""

    orders: int
    rolled_back: int
    events: int
    lost: int
    duplicates: int
    without_order: int
    torn: int
    """The number of orders whose two events are in different Kafka transactions."""
    committed: int
    aborted: int
    seconds: float

    @property
    def exactly_once(self) -> bool:
        """Whether each order has its two events once, in one Kafka transaction, and every event has its order."""
        return self.lost + self.duplicates + self.without_order + self.torn == 0 and self.events == 2 * self.orders


@click.command(name="demo-outbox")
def demo_outbox() -> None:
    """Send an outbox's events from PostgreSQL to Kafka exactly once, killing the worker twice."""
    console = Console()
    with DemoServers.running(console) as servers:
        findings = _run(console, servers)
    _print_findings(console, findings)
    if not findings.exactly_once:
        raise FencepostError("The demo found lost, doubled or torn events: this must never happen, please report it")


def _run(console: Console, servers: DemoServers) -> OutboxFindings:
    worker = servers.worker(_CONNECTOR)
    service = _OrdersService(servers.postgres.conninfo())
    console.print("An orders service writes orders, and two events of each into its outbox, in one transaction.")
    started = time.monotonic()
    with service.writing(SERVERS) as placed:
        worker.run_with_kills(console, service.slot_position, COMMITS, lambda: f"{placed():,} orders")
    console.print("The service is done; the worker reads the rest.")
    worker.drain()
    seconds = time.monotonic() - started
    console.print("Comparing the topics with the orders, with an independent client ...")
    return _check(servers.bootstrap, service, seconds)


class _OrdersService(PostgresWriters):
    """A service that uses a database, and does not know Kafka."""

    def __init__(self, conninfo: str) -> None:
        super().__init__(conninfo, _TABLES)
        self._has_slot = False

    def write(self, connection: Any, number: int) -> bool:
        """Place an order."""
        order = {"customer": random.randint(1, 50), "total": random.randint(1, 900)}  # noqa: S311 - a demo
        connection.execute(_ORDER, order)
        if random.random() < 0.1:  # noqa: S311 - likewise
            return False
        if number == 0 and self._is_captured():
            # The outbox stays small if its rows are deleted immediately: only the inserts matter.
            connection.execute(b"DELETE FROM public.outbox")
        return True

    def _is_captured(self) -> bool:
        """Whether the replication slot exists. Rows deleted before that are in neither its log nor the snapshot."""
        self._has_slot = self._has_slot or self.slot_position() is not None
        return self._has_slot

    def orders(self) -> set[int]:
        """Return the orders that are committed."""
        with self.connect() as connection:
            return {number for (number,) in connection.execute(b"SELECT id FROM public.orders").fetchall()}


def _check(bootstrap: str, service: _OrdersService, seconds: float) -> OutboxFindings:
    from fencepost.cli.common.independent_client import ends_of, read  # noqa: PLC0415 - as above

    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap}, where="the demo")
    orders = service.orders()
    markers: list[TransactionMarker] = []
    events: Counter[tuple[str, int]] = Counter()
    transactions: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
    for topic in (ORDERS, CUSTOMERS):
        found = list(read_transaction_markers(client, topic))
        markers += found
        for message in read(client, topic, ends_of(client, topic)):
            order = json.loads(message.value() or b"null")["order"]
            events[topic, order] += 1
            ends = [marker for marker in found if marker.partition == message.partition()]
            end = ends[bisect.bisect(ends, message.offset() or 0, key=lambda marker: marker.offset)]
            transactions[order].add(end.transaction)
    wanted = {(topic, order) for topic in (ORDERS, CUSTOMERS) for order in orders}
    return OutboxFindings(
        orders=len(orders),
        rolled_back=service.rolled_back,
        events=events.total(),
        lost=len(wanted - events.keys()),
        duplicates=sum(count - 1 for count in events.values()),
        without_order=len(events.keys() - wanted),
        torn=sum(len(found) > 1 for found in transactions.values()),
        committed=len({marker.transaction for marker in markers if marker.committed}),
        aborted=len({marker.transaction for marker in markers if not marker.committed}),
        seconds=seconds,
    )


def _print_findings(console: Console, findings: OutboxFindings) -> None:
    rows = (
        ("orders in PostgreSQL", f"{findings.orders:,}"),
        ("orders rolled back", f"{findings.rolled_back:,}"),
        ("events found at read_committed, two of each order", f"{findings.events:,}"),
        ("events lost", f"{findings.lost:,}"),
        ("events found twice", f"{findings.duplicates:,}"),
        ("events without their order", f"{findings.without_order:,}"),
        ("orders whose events are in different Kafka transactions", f"{findings.torn:,}"),
        ("worker killed with SIGKILL", f"{KILLS}"),
        ("transactions committed", f"{findings.committed:,}"),
        ("transactions aborted", f"{findings.aborted:,}"),
        ("events/s, with the kills and restarts", f"{findings.events / findings.seconds:,.0f}"),
    )
    print_figures(console, "Every event once?", rows)
    console.print("Try next: docs/guide/outbox.md, for your own service", soft_wrap=True)
