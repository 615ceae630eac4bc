"""Workers with PostgresSource that are suspended, or whose brokers are down for a while."""

from __future__ import annotations

import contextlib
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from fencepost.connectors.postgres.server.lsn import parse_lsn
from fencepost.embedded.broker import EmbeddedBroker
from tests.support.bank import Tellers, assert_transactions_are_whole, balances, open_bank
from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource
from tests.support.processes import wait_for


@pytest.fixture
def bank(database: Database) -> Database:
    open_bank(database)
    # After this time the server takes a suspended client for lost.
    database.execute(f"alter database {database.name} set wal_sender_timeout = '2s'")
    return database


def confirmed(source: PostgresSource) -> str | None:
    """The slot's confirmed position: all changes before it are in Kafka. None without a slot."""
    found = source.database.execute(
        "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s", [source.slot]
    )
    return str(found[0][0]) if found else None


def tellers_did(tellers: Tellers, transfers: int) -> bool:
    return tellers.transfers > transfers


def slot_advances(source: PostgresSource) -> None:
    """Wait until the slot advances, which only commits do."""
    before = wait_for(lambda: confirmed(source), what="the slot")
    wait_for(lambda: confirmed(source) != before, what="the slot to advance")


def committed(source: PostgresSource) -> dict[str, Any]:
    """The offset in Kafka; empty while a broker that has just started has no leaders."""
    with contextlib.suppress(KafkaException):
        return source.offset() or {}
    return {}


def test_a_worker_that_was_suspended_commits_nothing_more(
    tmp_path: Path, bootstrap_servers: str, bank: Database, seed: int
) -> None:
    source = PostgresSource(tmp_path, bootstrap_servers, bank)
    try:
        with Tellers(bank, 2, seed, pause_s=0.02), source.start(once=False) as frozen:
            slot_advances(source)
            slot_advances(source)
            frozen.signal(signal.SIGSTOP)
            with source.start(once=False):
                slot_advances(source)
                frozen.signal(signal.SIGCONT)
                # Kafka fences its changes; if it has none, the slot is in use or is past its offset.
                noticed = ("-0 failed: ", "is active for PID")
                wait_for(lambda: any(text in frozen.output for text in noticed), what="the former worker to notice")
                slot_advances(source)
        source.run_to_end()

        assert assert_transactions_are_whole(source) == balances(bank)
    finally:
        source.drop_slot()


def test_the_slot_stays_behind_kafka_while_kafka_is_down(tmp_path: Path, bank: Database, seed: int) -> None:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        source = PostgresSource(tmp_path, broker.bootstrap_servers, bank)
        try:
            with Tellers(bank, 2, seed, pause_s=0.02) as tellers, source.start(once=False) as worker:
                slot_advances(source)
                slot_advances(source)
                for survives in (True, False):
                    broker.kill()
                    before = tellers.transfers
                    wait_for(partial(tellers_did, tellers, before + 100), what="transfers")
                    if not survives:
                        worker.kill()
                    slot = confirmed(source)
                    broker.start()
                    if survives:
                        slot_advances(source)
            offset = wait_for(lambda: committed(source), what="the committed offset")
            assert slot is not None
            assert parse_lsn(slot) <= parse_lsn(offset["lsn"])
            source.run_to_end()

            assert assert_transactions_are_whole(source) == balances(bank)
        finally:
            source.drop_slot()
