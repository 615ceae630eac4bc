"""docs/architecture.md lists all modules that a PostgreSQL change passes through, in order, until `poll` returns it."""

from __future__ import annotations

from tests.support.data_path import Trace, listed_modules
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.topics import unique


def test_a_change_passes_the_listed_modules_in_order(database: Database):
    needle = unique("needle")
    database.execute("create table t(id int primary key, name text)")
    topics = Topics(database)
    topics.run()
    database.execute("insert into t select n, %s from generate_series(1, 100) n", (needle,))
    trace = Trace(needle)
    with trace.running():
        topics.run()
    assert topics.ids("public.t") == list(range(1, 101))
    assert list(trace.modules) == listed_modules("A change of PostgreSQL")
    topics.drop_slot()
