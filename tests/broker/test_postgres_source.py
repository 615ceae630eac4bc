"""PostgresSource on a real server and broker: a snapshot, then the changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource, replayed


@pytest.fixture
def source(tmp_path: Path, bootstrap_servers: str, database: Database) -> Iterator[PostgresSource]:
    source = PostgresSource(tmp_path, bootstrap_servers, database)
    yield source
    source.drop_slot()


def rows(database: Database, table: str) -> dict[str, Any]:
    """The rows of a table by their key `id`, as events have them."""
    found = database.execute(f"select row_to_json(t) from {table} t")  # noqa: S608 - a name of a test
    return {json.dumps({"id": row["id"]}): row for (row,) in found}


def test_the_topic_replays_to_the_table_over_a_snapshot_and_changes(source: PostgresSource, database: Database):
    database.execute("create table accounts(id int primary key, owner text, balance numeric(12,2))")
    database.execute("insert into accounts select i, 'owner ' || i, i from generate_series(1, 300) i")

    source.run_to_end()
    assert replayed(source.events("public.accounts")) == rows(database, "accounts")

    database.execute("update accounts set balance = balance + 1 where id % 3 = 0")
    database.execute("delete from accounts where id % 7 = 0")
    database.execute("insert into accounts select i, null, 0 from generate_series(1000, 1100) i")
    database.execute("update accounts set id = id + 10000 where id % 11 = 0")
    source.run_to_end()

    assert replayed(source.events("public.accounts")) == rows(database, "accounts")
