"""Writers of rows with version numbers: the table `entries` has a column with the transaction id, `notes` has none."""

from __future__ import annotations

import random
from typing import Any

import psycopg

from tests.support.db_writers import Writers
from tests.support.postgres import Database

ENTRIES, NOTES = "entries", "notes"
TABLES = (ENTRIES, NOTES)

# Few enough rows to be read without Spark when a connector reads the table again.
_MOST_NOTES = 2000
_LATEST = 500
_SAVEPOINTS = 10
LARGE_ROWS = 100_000

_BATCH = "pg_current_xact_id()::text::bigint"


def open_books(database: Database) -> None:
    """Create the tables. A trigger stamps new and changed entries with their transaction."""
    database.execute(
        f"create table {ENTRIES}(id bigint generated always as identity primary key, version int not null, text text, "
        "batch xid8 default pg_current_xact_id())"
    )
    database.execute(f"create index on {ENTRIES}(batch)")
    database.execute(
        "create function stamp() returns trigger language plpgsql as "
        "'begin new.batch := pg_current_xact_id(); return new; end'"
    )
    database.execute(f"create trigger stamp before insert or update on {ENTRIES} for each row execute function stamp()")
    database.execute(
        f"create table {NOTES}(id bigint generated always as identity primary key, version int not null, text text, "
        "batch bigint not null)"
    )


def rows(database: Database, table: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    return [row for (row,) in database.execute(f"select row_to_json(t) from {table} t")]  # noqa: S608


class Clerks(Writers):
    """They insert and change rows; some savepoints and some transactions are rolled back."""

    def write(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        """Write to one table or both."""
        for table in chance.sample(TABLES, chance.choice((1, 1, 2))):
            _insert(connection, table, chance.randint(1, 3))
            if chance.random() < 0.7:
                _change(connection, table, chance)
            if chance.random() < 0.3:
                connection.execute("savepoint s")
                _insert(connection, table, 1)
                _change(connection, table, chance)
                connection.execute(chance.choice(("release s", "rollback to s")))
        if chance.random() < 0.15:
            connection.rollback()
        else:
            connection.commit()


def write_much(database: Database) -> None:
    """Write 100,000 entries in one transaction, and as many more that are rolled back to savepoints."""
    with database.connect(autocommit=False) as connection:
        for _ in range(_SAVEPOINTS):
            for end in ("rollback to s", "release s"):
                connection.execute("savepoint s")
                _insert(connection, ENTRIES, LARGE_ROWS // _SAVEPOINTS)
                connection.execute(end)
        connection.commit()


def add_column(database: Database, number: int) -> None:
    """Add a column to both tables; rows written from then on have a value in it."""
    with database.connect(autocommit=False) as connection:
        # While ALTER TABLE waits for its lock, all other users of the table wait, too.
        connection.execute("set lock_timeout = '5s'")
        for table in TABLES:
            connection.execute(f"alter table {table} add column extra_{number} int".encode())
            connection.execute(f"alter table {table} alter column extra_{number} set default {number}".encode())
        connection.commit()


def touch(database: Database, table: str) -> str:
    """Change a row, and return the id of the transaction."""
    statement = (
        f"update {table} set version = version + 1, batch = {_batch(table)} "  # noqa: S608
        f"where id = (select min(id) from {table}) returning batch::text"
    )
    ((batch,),) = database.execute(statement)
    return str(batch)


def _insert(connection: psycopg.Connection[Any], table: str, count: int) -> None:
    few = f"(select count(*) from {table}) < {_MOST_NOTES}" if table == NOTES else "true"  # noqa: S608
    connection.execute(
        f"insert into {table}(version, text, batch) select 1, 'new', {_batch(table)} "  # noqa: S608
        f"from generate_series(1, {count}) where {few}".encode()
    )


def _change(connection: psycopg.Connection[Any], table: str, chance: random.Random) -> None:
    connection.execute(
        f"update {table} set version = version + 1, text = %s, batch = {_batch(table)} "  # noqa: S608
        f"where id = (select max(id) from {table}) - %s".encode(),
        [f"changed by {chance.randrange(1_000_000)}", chance.randrange(_LATEST)],
    )


def _batch(table: str) -> str:
    return "pg_current_xact_id()" if table == ENTRIES else _BATCH
