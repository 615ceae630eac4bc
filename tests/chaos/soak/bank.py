"""A bank in PostgreSQL whose changes the group captures, while the server is killed and its connections are cut."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.bank import Tellers, assert_transactions_are_whole, balances, open_bank
from tests.support.fault_proxy import FaultProxy
from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource
from tests.support.processes import wait_for

_TELLERS = 2
_PAUSE_SECONDS = 0.1
_SIGNAL_EVERY_SECONDS = 10.0
_CAUGHT_UP_SECONDS = 300.0
_READ_ALL = json.dumps({"data-collections": [r"public\.(savings|checking)"]})
_JSON = "org.apache.kafka.connect.json.JsonConverter"


class Bank:
    """The server behind links that can be cut, its tellers, and the connector of its tables."""

    def __init__(self, server: EmbeddedPostgres, proxy: FaultProxy, tellers: Tellers, source: PostgresSource) -> None:
        self.source = source
        self._server = server
        self._proxy = proxy
        self._tellers = tellers
        self._next_signal = 0.0

    @property
    def name(self) -> str:
        """The name of the connector."""
        return self.source.prefix

    @property
    def config(self) -> dict[str, str]:
        """The configuration of the connector."""
        converters = {f"{part}.converter": _JSON for part in ("key", "value")}
        plain = {f"{name}.schemas.enable": "false" for name in converters}
        return {**self.source.properties(), **converters, **plain, "tasks.max": "1"}

    def kill(self) -> Callable[[], None]:
        """Kill the server; undone by a start with recovery."""
        self._server.kill()
        return self._start

    def _start(self) -> None:
        self._server.start()

    def cut(self) -> Callable[[], None]:
        """Reset the connector's connections and refuse new ones; undone by letting them through."""
        self._proxy.refuse()
        return self._proxy.heal

    def tick(self) -> None:
        """Have the tables read again, now and then."""
        if time.monotonic() < self._next_signal:
            return
        self._next_signal = time.monotonic() + _SIGNAL_EVERY_SECONDS
        with contextlib.suppress(psycopg.OperationalError):
            self.source.database.execute("insert into signals(type, data) values ('execute-snapshot', %s)", [_READ_ALL])

    def wait_until_captured(self) -> None:
        """Have the tellers stop, and wait until all that they did is in Kafka, as the slot tells."""
        self._tellers.__exit__(None, None, None)
        database = self.source.database
        ((end,),) = database.execute("select pg_current_wal_flush_lsn()::text")
        captured = "select 1 from pg_replication_slots where slot_name = %s and confirmed_flush_lsn >= %s::pg_lsn"
        wait_for(
            lambda: database.execute(captured, [self.source.slot, end]), _CAUGHT_UP_SECONDS, what="the bank is captured"
        )

    def faults(self) -> list[str]:
        """Replay the topics; return what is wrong with what they say of the tables."""
        try:
            rows = assert_transactions_are_whole(self.source)
        except AssertionError as error:
            return [f"the bank: {error}"]
        return [] if rows == balances(self.source.database) else ["the bank: the replayed topics are not the tables"]


@contextlib.contextmanager
def running_bank(folder: Path, bootstrap_servers: str, *, replicas: int, seed: int) -> Iterator[Bank]:
    """Run a server with tellers at work."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(EmbeddedPostgres(settings={"wal_sender_timeout": "2s"}))
        database = stack.enter_context(Database(server))
        open_bank(database)
        database.execute("create table signals(id serial primary key, type text, data text)")
        proxy = FaultProxy(server.port, framed=False).start()
        stack.callback(proxy.stop)
        source = PostgresSource(
            folder, bootstrap_servers, database, database_port=str(proxy.port), table_exclude_list=r"public\.signals",
            signal_data_collection="public.signals", incremental_snapshot_chunk_size="5",
            topic_creation_default_replication_factor=str(replicas),
        )  # fmt: skip
        stack.callback(source.drop_slot)
        # Stopping them twice does no harm.
        tellers = stack.enter_context(Tellers(database, _TELLERS, seed, pause_s=_PAUSE_SECONDS))
        yield Bank(server, proxy, tellers, source)
