"""The bank of the demo: accounts in two tables, and tellers that transfer money between them at the same time."""

from __future__ import annotations

import random
from typing import Any, Final

import psycopg

from fencepost.cli.demo.database_writers import PostgresWriters

PREFIX: Final = "bank"
CHECKING, SAVINGS, TRANSFERS = "public.checking", "public.savings", "public.transfers"
TABLES: Final = (CHECKING, SAVINGS, TRANSFERS)
_ACCOUNTS: Final = 500
_BALANCE: Final = 1_000

_CREATED: Final = """
CREATE TABLE public.transfers (id bigserial PRIMARY KEY, giver int, taker int, amount int);
CREATE TABLE {checking} (id int PRIMARY KEY, balance int NOT NULL);
CREATE TABLE {savings} (LIKE {checking} INCLUDING ALL);
INSERT INTO {checking} SELECT i, {balance} FROM generate_series(1, {accounts}) i;
INSERT INTO {savings} SELECT {accounts} + i, {balance} FROM generate_series(1, {accounts}) i;
"""
# One transaction: the giver and the taker may be in either table.
_TRANSFER: Final = """
WITH given AS (UPDATE {giver} SET balance = balance - %(amount)s WHERE id = %(giver)s),
     taken AS (UPDATE {taker} SET balance = balance + %(amount)s WHERE id = %(taker)s)
INSERT INTO public.transfers (giver, taker, amount) VALUES (%(giver)s, %(taker)s, %(amount)s)
"""


class Bank(PostgresWriters):
    """The bank's tables, and the tellers: threads that transfer money."""

    accounts: Final = 2 * _ACCOUNTS
    """The number of accounts in all tables."""

    total: Final = accounts * _BALANCE
    """The sum of all balances, which no transfer changes."""

    def __init__(self, conninfo: str) -> None:
        tables = _CREATED.format(checking=CHECKING, savings=SAVINGS, accounts=_ACCOUNTS, balance=_BALANCE)
        super().__init__(conninfo, tables.encode())

    def rows(self, table: str) -> dict[int, dict[str, Any]]:
        """Return the rows of a table by their id."""
        with self.connect() as connection:
            found = connection.execute(f"SELECT row_to_json(t) FROM {table} t".encode()).fetchall()  # noqa: S608
        return {row["id"]: row for (row,) in found}

    def write(self, connection: psycopg.Connection[Any], number: int) -> bool:
        """Transfer money. The transfer fails if two tellers deadlock."""
        del number
        giver, taker = random.sample(range(1, self.accounts + 1), 2)
        statement = _TRANSFER.format(giver=_table_of(giver), taker=_table_of(taker))
        amount = random.randint(1, 100)  # noqa: S311 - a demo
        try:
            connection.execute(statement.encode(), {"giver": giver, "taker": taker, "amount": amount})
        except psycopg.errors.DeadlockDetected:
            return False
        return True


def _table_of(account: int) -> str:
    return CHECKING if account <= _ACCOUNTS else SAVINGS
