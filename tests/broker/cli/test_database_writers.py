"""The writers to a demo's database, on a real server."""

from __future__ import annotations

from typing import Any

from fencepost.cli.demo.bank import TABLES, TRANSFERS, Bank
from fencepost.cli.demo.database_writers import PostgresWriters
from tests.support.postgres import Database
from tests.support.processes import wait_for


class _EveryOther(PostgresWriters):
    """Inserts a row in each transaction, and commits every other one."""

    runs = 0

    def write(self, connection: Any, number: int) -> bool:
        connection.execute("insert into t values (%s)", [number])
        self.runs += 1
        return self.runs % 2 == 0


def test_only_committed_transactions_are_counted_and_in_the_database(database: Database):
    writers = _EveryOther(database.conninfo, b"create table t(n int)")
    with writers.writing(1) as committed:
        wait_for(lambda: committed() >= 3, what="three commits")
        assert writers.slot_position() is None
    assert database.execute("select count(*) from t") == [(committed(),)]
    assert committed() + writers.rolled_back == writers.runs


def test_transfers_between_accounts_leave_the_sum_of_all_balances(database: Database):
    bank = Bank(database.conninfo)
    with bank.writing(4) as done:
        wait_for(lambda: done() >= 20, what="twenty transfers")
    tables = [bank.rows(table) for table in TABLES if table != TRANSFERS]
    assert sum(row["balance"] for table in tables for row in table.values()) == bank.total
    assert sum(map(len, tables)) == bank.accounts
    assert len(bank.rows(TRANSFERS)) == done()
