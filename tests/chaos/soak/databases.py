"""The databases of a soak: a server, its eight writers, and the connectors that read the tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from tests.chaos.soak.audit import Audit
from tests.chaos.soak.bank import Bank
from tests.chaos.soak.clerks import Clerks, add_column, open_books, write_much
from tests.chaos.soak.cluster import Cluster
from tests.chaos.soak.ledger import Ledger
from tests.chaos.soak.postgres import Server, Undo, running_server
from tests.chaos.soak.schedule import Action, Kind
from tests.support.bank import Tellers
from tests.support.db_writers import Writers
from tests.support.postgres_source import PostgresSource

_TELLERS = 3
_CLERKS = 5
_PAUSE_SECONDS = 0.1


class Databases:
    """The soak's interface to everything about databases."""

    def __init__(self, server: Server, bank: Bank, ledger: Ledger, audit: Audit, writers: list[Writers]) -> None:
        self._server = server
        self._bank = bank
        self._ledger = ledger
        self._audit = audit
        self._writers = writers
        self._columns = 0
        self.configs = bank.configs | ledger.configs
        """The configurations of the connectors that the soak may reconfigure, stop and restart."""
        self.own_configs = audit.configs
        """The configurations of the connectors whose slot is dropped; the soak changes nothing else of them."""
        self.first_tasks = [f"{name}-0" for name in self.configs]
        """A task of each connector in OF_TABLES."""

    def tick(self) -> None:
        """Make periodic requests."""
        self._bank.tick()

    def harm(self, action: Action) -> Undo:
        """Do an action to the server; return the function that undoes it."""
        return self._server.harm(action)

    def do(self, action: Action) -> None:
        """Do a long action that ends by itself; nothing if the server is down."""
        match action.kind:
            case Kind.DROP_SLOT:
                self._audit.lose_slot()
            case Kind.LARGE_TRANSACTION:
                with contextlib.suppress(psycopg.OperationalError):
                    write_much(self._server.database)
            case Kind.ADD_COLUMN:
                self._columns += 1
                with contextlib.suppress(psycopg.OperationalError):
                    add_column(self._server.database, self._columns)

    def calm(self) -> None:
        """End what may last although all faults are undone."""
        self._server.end_deadlocks()

    def wait_until_read(self) -> None:
        """Stop the writers, and wait until all that they wrote is in Kafka."""
        for writers in self._writers:
            writers.stop()
        self._ledger.wait_until_read()
        self._bank.wait_until_captured()
        self._audit.wait_until_captured()

    def faults(self) -> list[str]:
        """Compare the topics with the tables; return the differences."""
        return [*self._bank.faults(), *self._ledger.faults(), *self._audit.faults()]

    def __str__(self) -> str:
        return f"{sum(writers.done for writers in self._writers)} database transactions of eight writers"


@contextlib.contextmanager
def running_databases(
    folder: Path, cluster: Cluster, tell: Callable[[str], None], *, replicas: int, seed: int
) -> Iterator[Databases]:
    """Run a server with writers at work."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running_server(folder, tell))
        open_books(server.database)
        bank_source, audit_source = (
            PostgresSource(
                folder, cluster.bootstrap_servers, server.database, database_port=str(server.proxy.port),
                topic_creation_default_replication_factor=str(replicas),
            )
            for _ in range(2)
        )  # fmt: skip
        bank = Bank(server, bank_source)
        audit = Audit(server, cluster, audit_source)
        ledger = Ledger(server, cluster, replicas=replicas)
        writers: list[Writers] = [
            stack.enter_context(Tellers(server.database, _TELLERS, seed, pause_s=_PAUSE_SECONDS)),
            stack.enter_context(Clerks(server.database, _CLERKS, seed + _TELLERS, pause_s=_PAUSE_SECONDS)),
        ]
        yield Databases(server, bank, ledger, audit, writers)
