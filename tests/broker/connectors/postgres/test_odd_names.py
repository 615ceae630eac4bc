"""Table and column names that are SQL keywords, or that differ only if they are quoted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.connectors.postgres.changes.connection import PostgresError
from fencepost.connectors.postgres.server.quoting import quoted
from tests.support.incremental import read_rows, send, signalled_topics
from tests.support.postgres import Database
from tests.support.postgres_task import Topics


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    with signalled_topics(database) as topics:
        yield topics


@pytest.mark.parametrize("name", ["coalesce", "user", "order", 'a"b', "UPPER", "größe", "a b", "a'b", "?column?", "%s"])
def test_a_key_of_any_name_is_read_in_chunks(name: str, topics: Topics, database: Database):
    column = quoted(name)
    database.execute(f"create table t({column} int primary key, n int)")
    database.execute("insert into t select i, i from generate_series(1, 30) i")
    topics.change(snapshot_mode="no_data")
    topics.run()
    send(database, "s-1", data_collections=["public.t"])
    topics.run()

    assert read_rows(topics, "public.t") == [{name: i, "n": i} for i in range(1, 31)]


def test_a_table_with_the_name_of_its_key_is_read_in_chunks(topics: Topics, database: Database):
    database.execute('create table "coalesce"("coalesce" int primary key, n int)')
    database.execute('insert into "coalesce" select i, i from generate_series(1, 30) i')
    topics.change(snapshot_mode="no_data")
    topics.run()
    send(database, "s-1", data_collections=["public.coalesce"])
    topics.run()

    assert [row["n"] for row in read_rows(topics, "public.coalesce")] == [*range(1, 31)]


@pytest.mark.parametrize("mode", ["all_tables", "filtered"])
@pytest.mark.parametrize("later", [False, True])
def test_tables_that_only_quotes_tell_apart_are_refused(mode: str, later: bool, topics: Topics, database: Database):
    database.execute('create schema a; create schema "a.b"')
    database.execute('create table a."b.c"(id int primary key)')
    topics.change(publication_autocreate_mode=mode)
    if later:
        topics.run()
    database.execute('create table "a.b".c(id int primary key); insert into "a.b".c values (1)')

    with pytest.raises(PostgresError, match=r"Two tables have the name a\.b\.c"):
        topics.run()
    assert topics.events("a.b.c") == []
