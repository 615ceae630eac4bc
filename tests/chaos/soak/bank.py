"""One connector captures all tables: the bank's transfers, and the clerks' entries with their large transactions."""

from __future__ import annotations

import contextlib
import json
import time

import psycopg

from tests.chaos.soak.changes import captured_rows, connector_config, wait_until_captured
from tests.chaos.soak.clerks import ENTRIES, rows
from tests.chaos.soak.postgres import Server
from tests.chaos.soak.rows import Promise, row_faults
from tests.support.bank import assert_transactions_are_whole, balances, open_bank
from tests.support.postgres_source import PostgresSource

_SIGNAL_EVERY_SECONDS = 10.0
_READ_ALL = json.dumps({"data-collections": [r"public\.(savings|checking)"]})


class Bank:
    """The bank's tables, and the connector that captures them, with incremental snapshots of the bank's tables."""

    def __init__(self, server: Server, source: PostgresSource) -> None:
        self.source = source
        self._database = server.database
        self._next_signal = 0.0
        open_bank(server.database)
        server.database.execute("create table signals(id serial primary key, type text, data text)")
        source.change(
            table_include_list=rf"public\.(savings|checking|{ENTRIES})",
            signal_data_collection="public.signals",
            incremental_snapshot_chunk_size="5",
        )

    @property
    def configs(self) -> dict[str, dict[str, str]]:
        """The connector's configuration by its name."""
        return {self.source.prefix: connector_config(self.source)}

    def tick(self) -> None:
        """Request an incremental snapshot of the bank's tables, if the last request is long enough ago."""
        if time.monotonic() < self._next_signal:
            return
        self._next_signal = time.monotonic() + _SIGNAL_EVERY_SECONDS
        with contextlib.suppress(psycopg.OperationalError):
            self._database.execute("insert into signals(type, data) values ('execute-snapshot', %s)", [_READ_ALL])

    def wait_until_captured(self) -> None:
        """Wait until all rows written so far are in Kafka."""
        wait_until_captured(self.source)

    def faults(self) -> list[str]:
        """Replay the topics, and compare the result with the tables; return the differences."""
        entries = row_faults(
            "the bank's entries",
            captured_rows(self.source, f"public.{ENTRIES}"),
            rows(self._database, ENTRIES),
            Promise.EACH,
            snapshots=1,
        )
        try:
            replayed = assert_transactions_are_whole(self.source)
        except AssertionError as error:
            return [f"the bank: {error}", *entries]
        same = replayed == balances(self._database)
        return entries if same else ["the bank: the replayed topics are not the tables", *entries]
