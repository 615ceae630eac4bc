"""The bank of the demo: accounts in two tables, and tellers that transfer money between them at the same time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

PREFIX: Final = "bank"
CHECKING, SAVINGS, TRANSFERS = "public.checking", "public.savings", "public.transfers"
TABLES: Final = (CHECKING, SAVINGS, TRANSFERS)
_ACCOUNTS: Final = 500
_BALANCE: Final = 1_000

# One transaction: the giver and the taker may be in either table.
_TRANSFER: Final = """
WITH given AS (UPDATE {giver} SET balance = balance - %(amount)s WHERE id = %(giver)s),
     taken AS (UPDATE {taker} SET balance = balance + %(amount)s WHERE id = %(taker)s)
INSERT INTO public.transfers (giver, taker, amount) VALUES (%(giver)s, %(taker)s, %(amount)s)
"""


class Bank:
    """The tables, and the tellers that write them."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._watching: psycopg.Connection[Any] | None = None

    @property
    def accounts(self) -> int:
        """The number of accounts in all tables."""
        return 2 * _ACCOUNTS

    @property
    def total(self) -> int:
        """The sum of all balances, which no transfer changes."""
        return self.accounts * _BALANCE

    def open(self) -> None:
        """Create the tables and the accounts."""
        with psycopg.connect(self._conninfo) as connection:
            for first, table in ((0, CHECKING), (_ACCOUNTS, SAVINGS)):
                connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, balance int NOT NULL)".encode())
                connection.execute(
                    f"INSERT INTO {table} SELECT {first} + i, {_BALANCE} FROM generate_series(1, {_ACCOUNTS}) i".encode()  # noqa: S608
                )
            connection.execute(
                b"CREATE TABLE public.transfers (id bigserial PRIMARY KEY, giver int, taker int, amount int)"
            )

    def rows(self, table: str) -> dict[int, dict[str, Any]]:
        """Return the rows of a table by their id."""
        with psycopg.connect(self._conninfo) as connection:
            found = connection.execute(f"SELECT row_to_json(t) FROM {table} t".encode()).fetchall()  # noqa: S608
        return {row["id"]: row for (row,) in found}

    def slot_position(self) -> str | None:
        """Return the position to which the connector's slot was advanced, None if the slot does not exist."""
        if self._watching is None:
            self._watching = psycopg.connect(self._conninfo, autocommit=True)
        found = self._watching.execute(b"SELECT confirmed_flush_lsn::text FROM pg_replication_slots").fetchone()
        return None if found is None else found[0]

    def close(self) -> None:
        """End the connection that watches the slot."""
        if self._watching is not None:
            self._watching.close()

    @contextmanager
    def tellers(self, count: int) -> Iterator[Callable[[], int]]:
        """Let tellers transfer money within the block; gives a function that counts the transfers."""
        stopping = threading.Event()
        done = [0] * count
        threads = [threading.Thread(target=self._work, args=(number, done, stopping)) for number in range(count)]
        for thread in threads:
            thread.start()
        try:
            yield lambda: sum(done)
        finally:
            stopping.set()
            for thread in threads:
                thread.join()

    def _work(self, number: int, done: list[int], stopping: threading.Event) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            while not stopping.wait(0.004):
                giver, taker = random.sample(range(1, self.accounts + 1), 2)
                statement = _TRANSFER.format(giver=_table_of(giver), taker=_table_of(taker))
                amount = random.randint(1, 100)  # noqa: S311 - likewise
                try:
                    connection.execute(statement.encode(), {"giver": giver, "taker": taker, "amount": amount})
                except psycopg.errors.DeadlockDetected:
                    continue
                done[number] += 1


def _table_of(account: int) -> str:
    return CHECKING if account <= _ACCOUNTS else SAVINGS
