"""PostgresSource under kills: money that moves between accounts is never lost, doubled, or seen half way."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.failpoint import FailPoint, of_task
from tests.support.bank import Tellers, assert_transactions_are_whole, balances, open_bank
from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource

KILLS = 3
# The steps between which the transaction, the offset and the slot may disagree.
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
    point: FailPoint, source: PostgresSource, database: Database
):
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    with Tellers(database, 2, seed, pause_s=0.02):
        # The first transaction claims the slot, the second has the snapshot, and the others changes.
        for number in range(1, KILLS + 1):
            with source.start(once=False, environment=of_task(point, number)) as worker:
                assert worker.wait() == -signal.SIGKILL, worker.output
    source.run_to_end()

    assert assert_transactions_are_whole(source) == balances(database)
