"""`fencepost demo-java`: Debezium's own connector, a jar, sends a shop's changes from MariaDB to Kafka exactly once.

The shop writes each order, and takes a piece from the stock, in one transaction. It rolls some of them back. The worker is
killed twice, with its JVM. Then an independent client compares the topics with the database.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from fencepost.api.errors import FencepostError
from fencepost.cli.common.tables import print_figures
from fencepost.cli.demo.database_writers import DatabaseWriters
from fencepost.cli.demo.workers import KILLS, DemoWorker, WaitLines, end_of_log, require_packages
from fencepost.cli.run.broker_jars import fetch_broker_jars, fetch_jars
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.jars import JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.mariadb import (
    PROGRAMS,
    USER,
    EmbeddedMariaDb,
    MariaDbSession,
    installed_programs,
    programs_folder,
    require_machine,
)
from fencepost.java.host_jar import COMPILER, CONNECT
from fencepost.java.host_jar import JAR as HOST_JAR
from fencepost.kafka.config.client_config import ClientConfig

DEBEZIUM_MARIADB: Final = JarSet(
    # Maven Central has no later version.
    "debezium-mariadb-3.5.0",
    "Debezium's connector for MariaDB",
    (("io.debezium", "debezium-connector-mariadb", "3.5.0.Final"),),
    megabytes=31,
)
PRODUCTS: Final = 20
PIECES: Final = 1_000_000
ORDERS_TOPIC, STOCK_TOPIC = "demo.shop.orders", "demo.shop.stock"

COMMITS: Final = 5, 15
"""A kill of the worker follows about this many commits in Kafka: a random number between these two."""

_DRAIN_SECONDS: Final = 240.0
_STOP_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.2
_TABLES: Final = (
    "create database shop; use shop;"  # noqa: S608 - constants
    "create table stock (product int primary key, pieces int not null);"
    "create table orders (id bigint auto_increment primary key, product int not null);"
    f"insert into stock select seq, {PIECES} from seq_1_to_{PRODUCTS}"
)
_CONNECTOR: Final = """\
name=shop
connector.class=java:io.debezium.connector.mariadb.MariaDbConnector
database.hostname=127.0.0.1
database.port={port}
database.user={user}
database.password=none
database.server.id=4711
topic.prefix=demo
database.include.list=shop
table.include.list=shop.orders,shop.stock
schema.history.internal.kafka.bootstrap.servers={bootstrap}
schema.history.internal.kafka.topic=demo-schema-history
exactly.once.support=required
task.restart.backoff.ms=10
"""

Change = tuple[str, int, int]
"""A table, the id of the row, and a number: the pieces left in stock, or for an order, its product."""


@dataclass(frozen=True, slots=True)
class ShopFindings:
    """The result of comparing the topics with the database."""

    orders: int
    rolled_back: int
    changes: int
    found: int
    lost: int
    duplicates: int
    unknown: int
    seconds: float

    @property
    def exactly_once(self) -> bool:
        """Whether each change of the database is in Kafka once, and nothing else."""
        return self.lost + self.duplicates + self.unknown == 0 and self.found == self.changes


@click.command(name="demo-java")
def demo_java() -> None:
    """Send a shop's changes from MariaDB to Kafka exactly once with Debezium's jar, killing the worker twice."""
    console = Console()
    require_packages(("confluent_kafka", "demo"))
    _fetch(console)
    with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder:
        console.print("Starting MariaDB ...")
        with EmbeddedMariaDb(Path(folder) / "mariadb") as mariadb:
            console.print("Starting a Kafka broker ...")
            with EmbeddedBroker(Path(folder) / "broker") as broker:
                findings = _run(console, Path(folder), mariadb, broker.bootstrap_servers)
    _print_findings(console, findings)
    if not findings.exactly_once:
        raise FencepostError("The demo found lost or doubled changes: this must never happen, please report it")


def _fetch(console: Console) -> None:
    """Fetch the programs that this user does not have yet, before anything is started."""
    require_machine()
    # A wheel of fencepost has the compiled classes; in a clone they must be compiled first.
    for jars in (DEBEZIUM_MARIADB, CONNECT, *(() if HOST_JAR.is_file() else (COMPILER,))):
        fetch_jars(jars)
    fetch_broker_jars()
    if not programs_folder().is_dir():
        fetch_jars(PROGRAMS)
        console.print("Unpacking MariaDB, once ...")
        installed_programs()


def _run(console: Console, folder: Path, mariadb: EmbeddedMariaDb, bootstrap: str) -> ShopFindings:
    _install(folder / "plugins" / "debezium")
    connector = _CONNECTOR.format(port=mariadb.port, user=USER, bootstrap=bootstrap)
    worker = DemoWorker.lay_out(folder, bootstrap, connector, f"plugin.path={folder / 'plugins'}\n")
    shop, topics = _Shop(mariadb), _Topics(bootstrap)
    console.print("Starting a worker and its JVM; Debezium reads the tables as they are ...")
    # The snapshot must be complete before the first kill: after a kill in a snapshot, Debezium begins a new snapshot, and
    # rows that were changed before the new snapshot get no event.
    _run_until(console, worker, lambda: topics.position() is not None, lambda: "the snapshot is not complete yet")
    console.print("A shop writes each order and takes a piece from the stock, in one transaction.")
    started = time.monotonic()
    with shop.writing(1) as sold:
        worker.run_with_kills(console, topics.position, COMMITS, lambda: f"{sold():,} orders")
    console.print("The shop is closed; the worker reads the rest.")
    changes = shop.changes()
    _run_until(
        console,
        worker,
        lambda: topics.count() >= len(changes),
        lambda: f"{topics.count():,} of {len(changes):,} changes are in Kafka",
    )
    seconds = time.monotonic() - started
    console.print("Comparing the topics with the database, with an independent client ...")
    return _check(Counter(topics.changes()), changes, shop, seconds)


def _run_until(console: Console, worker: DemoWorker, done: Callable[[], bool], progress: Callable[[], str]) -> None:
    """Run the worker until it is done. Raises FencepostError if it ends by itself, or takes too long."""
    with worker.running() as process:
        started, lines = time.monotonic(), WaitLines(console, progress)
        while not done():
            if process.poll() is not None or time.monotonic() - started > _DRAIN_SECONDS:
                raise FencepostError(f"The worker does not go on; the end of its log:\n{end_of_log(worker.log)}")
            lines.show()
            time.sleep(_LOOK_SECONDS)
        process.send_signal(signal.SIGTERM)
        # Everything is committed by now, so a worker that takes longer may be killed.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)


def _install(plugin: Path) -> None:
    """Put Debezium's jars into a folder of plugin.path."""
    plugin.mkdir(parents=True)
    for jar in class_path(find_java(), DEBEZIUM_MARIADB):
        (plugin / jar.name).symlink_to(jar)


class _Shop(DatabaseWriters):
    """A shop that uses a database, and does not know Kafka."""

    def __init__(self, mariadb: EmbeddedMariaDb) -> None:
        super().__init__()
        self._mariadb = mariadb
        mariadb.execute(_TABLES)

    def connect(self) -> MariaDbSession:
        """Open a session in the shop's database."""
        session = self._mariadb.session()
        session.execute("use shop; set autocommit=0")
        return session

    def write(self, connection: MariaDbSession, number: int) -> bool:
        """Sell a product."""
        del number
        product = random.randint(1, PRODUCTS)  # noqa: S311 - a demo
        connection.execute(
            f"insert into orders (product) values ({product});"  # noqa: S608 - a number
            f"update stock set pieces = pieces - 1 where product = {product}"
        )
        return random.random() >= 0.1  # noqa: S311 - likewise

    def changes(self) -> set[Change]:
        """Return all changes that the database has committed, including the initial rows of the stock."""
        orders = self._mariadb.execute("select id, product from shop.orders")
        stock = self._mariadb.execute("select product, pieces from shop.stock")
        left = {("stock", int(product), pieces) for product, now in stock for pieces in range(int(now), PIECES + 1)}
        return left | {("orders", int(number), int(product)) for number, product in orders}


class _Topics:
    """The topics as an independent client sees them at read_committed."""

    def __init__(self, bootstrap: str) -> None:
        self._client = ClientConfig.from_properties({"bootstrap.servers": bootstrap}, where="the demo")

    def changes(self) -> Iterator[Change]:
        from fencepost.cli.common.independent_client import ends_of, read  # noqa: PLC0415 - the command installs it

        for topic, table, row, value in (
            (ORDERS_TOPIC, "orders", "id", "product"),
            (STOCK_TOPIC, "stock", "product", "pieces"),
        ):
            for message in read(self._client, topic, ends_of(self._client, topic)):
                after = json.loads(message.value() or b"null")["after"]
                yield table, after[row], after[value]

    def count(self) -> int:
        try:
            return sum(1 for _ in self.changes())
        except FencepostError:
            return 0

    def position(self) -> str | None:
        """The end of the stock's topic; None until the snapshot is there."""
        from fencepost.cli.common.independent_client import MissingTopicError, ends_of  # noqa: PLC0415 - as above

        try:
            end = sum(ends_of(self._client, STOCK_TOPIC).values())
        except MissingTopicError:
            return None
        return None if end <= PRODUCTS else str(end)


def _check(found: Counter[Change], wanted: set[Change], shop: _Shop, seconds: float) -> ShopFindings:
    return ShopFindings(
        orders=sum(table == "orders" for table, _, _ in wanted),
        rolled_back=shop.rolled_back,
        changes=len(wanted),
        found=found.total(),
        lost=len(wanted - found.keys()),
        duplicates=sum(count - 1 for count in found.values()),
        unknown=len(found.keys() - wanted),
        seconds=seconds,
    )


def _print_findings(console: Console, findings: ShopFindings) -> None:
    rows = (
        ("orders in MariaDB", f"{findings.orders:,}"),
        ("orders rolled back", f"{findings.rolled_back:,}"),
        ("changes of rows, and the first rows of the stock", f"{findings.changes:,}"),
        ("changes found at read_committed", f"{findings.found:,}"),
        ("changes lost", f"{findings.lost:,}"),
        ("changes found twice", f"{findings.duplicates:,}"),
        ("changes that the database does not have", f"{findings.unknown:,}"),
        ("worker killed with SIGKILL, and its JVM", f"{KILLS}"),
        ("changes/s, with the kills and restarts", f"{findings.found / findings.seconds:,.0f}"),
    )
    print_figures(console, "Every change once?", rows)
    console.print("Try next: docs/java-connectors.md, for your own jars", soft_wrap=True)
