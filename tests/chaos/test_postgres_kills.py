"""PostgresSource under kills: money that is moved between accounts is never lost, doubled, or half moved."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.failpoint import FailPoint, of_task
from tests.support.bank import ACCOUNTS, TABLES, Tellers, assert_transactions_are_whole, balances, open_bank
from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource

KILLS = 3
KILLS_WHILE_READING = int(os.environ.get("FENCEPOST_TEST_KILLS", "2"))
# At these steps the transaction, the offset and the slot may disagree.
POINTS = (
    FailPoint.BEFORE_BEGIN, FailPoint.MID_SEND, FailPoint.BEFORE_OFFSETS, FailPoint.AFTER_END_TXN_SENT,
    FailPoint.BEFORE_CALLBACKS,
)  # fmt: skip


@pytest.fixture
def source(tmp_path: Path, bootstrap_servers: str, database: Database) -> Iterator[PostgresSource]:
    open_bank(database)
    source = PostgresSource(tmp_path, bootstrap_servers, database)
    yield source
    source.drop_slot()


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_a_step_keeps_transactions_whole(
    point: FailPoint, source: PostgresSource, database: Database, seed: int
):
    with Tellers(database, 2, seed, pause_s=0.02):
        # The first transaction claims the slot, the second one has the snapshot, and the others have changes.
        for number in range(1, KILLS + 1):
            with source.start(once=False, environment=of_task(point, number)) as worker:
                assert worker.wait() == -signal.SIGKILL, worker.output
    source.run_to_end()

    assert assert_transactions_are_whole(source) == balances(database)


def test_a_worker_killed_while_it_reads_tables_again_writes_each_row_as_it_is(
    tmp_path: Path, bootstrap_servers: str, database: Database, seed: int, chance: random.Random
):
    open_bank(database)
    database.execute("create table signals(id serial primary key, type text, data text)")
    source = PostgresSource(
        tmp_path, bootstrap_servers, database, signal_data_collection="public.signals",
        table_exclude_list=r"public\.signals", incremental_snapshot_chunk_size="2",
    )  # fmt: skip
    read_all = json.dumps({"data-collections": [r"public\.(savings|checking)"]})
    try:
        source.run_to_end()
        with Tellers(database, 2, seed, pause_s=0.02):
            for _ in range(KILLS_WHILE_READING):
                database.execute("insert into signals(type, data) values ('execute-snapshot', %s)", [read_all])
                environment = of_task(chance.choice(POINTS), chance.randint(1, 12))
                with source.start(once=False, environment=environment) as worker:
                    assert worker.wait() == -signal.SIGKILL, worker.output
        source.run_to_end()

        # Rows of the incremental snapshot are compared with the state at their position.
        assert assert_transactions_are_whole(source) == balances(database)
        assert "incremental_snapshot" not in (source.offset() or {})
        read = [value for table in TABLES for _, value in source.events(table) if value and _was_read_again(value)]
        assert len(read) >= ACCOUNTS
    finally:
        source.drop_slot()


def _was_read_again(value: Any) -> bool:
    return bool(value["source"]["snapshot"] == "incremental")
