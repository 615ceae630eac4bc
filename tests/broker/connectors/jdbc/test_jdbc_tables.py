"""Which relations of a database JdbcSource reads, and why others that it names are refused."""

from __future__ import annotations

import pytest

from fencepost.api.errors import ConfigError
from fencepost.connectors.jdbc.connector import JdbcSourceConnector
from fencepost.testing import run_task
from tests.support.postgres import Database


@pytest.mark.parametrize(
    ("create", "name", "why"),
    [
        ("create view v as select 1 as id", "v", "public.v is a VIEW, which table.types leaves out: .* than snapshot"),
        ("create materialized view v as select 1 as id", "v", "public.v is a MATERIALIZED VIEW, which table.types"),
        ("create table r(id int) partition by range (id); create table v partition of r default", "v", ".* name r$"),
        ("select 1", "public.v", "the table does not exist: correct the name"),
    ],
)
def test_a_named_relation_that_is_not_read_is_refused_with_the_reason(
    database: Database, create: str, name: str, why: str
) -> None:
    database.execute(create)
    config = {"connection.url": database.jdbc_url, "connection.user": "postgres", "topic.prefix": "p-"}
    with pytest.raises(ConfigError, match=f"table.whitelist names {name}, but {why}"):
        run_task(JdbcSourceConnector, config | {"table.whitelist": name})


def test_tables_of_one_session_and_those_the_user_may_not_read_are_refused_by_name(database: Database) -> None:
    config = {"connection.url": database.jdbc_url, "connection.user": "postgres", "topic.prefix": "p-"}
    with database.connect() as session:
        session.execute("create temporary table brief(id int)")
        with pytest.raises(ConfigError, match=r"brief is a temporary table"):
            run_task(JdbcSourceConnector, config | {"table.whitelist": "brief"})
    role = f"reader_{database.name}"
    database.execute(f"create table t(id int); create role {role} login")
    try:
        with pytest.raises(ConfigError, match=r"the user may not read public.t: grant SELECT"):
            run_task(JdbcSourceConnector, config | {"table.whitelist": "t", "connection.user": role})
    finally:
        database.execute(f"drop role {role}")


def test_tables_that_only_quotes_tell_apart_are_refused(database: Database) -> None:
    database.execute('create schema a; create schema "a.b"; create table a."b.c"(id int); create table "a.b".c(id int)')
    database.execute('insert into a."b.c" values (7)')
    config = {"connection.url": database.jdbc_url, "connection.user": "postgres", "topic.prefix": "p-"}
    for listed in ({}, {"table.whitelist": "b.c,c"}):
        with pytest.raises(ConfigError, match=r"Two tables have the name a\.b\.c.*schema\.pattern"):
            run_task(JdbcSourceConnector, config | listed)
    with run_task(JdbcSourceConnector, config | {"schema.pattern": "a"}) as task:
        assert [record.value for record in task.poll().records] == [{"id": 7}]


@pytest.mark.parametrize("kind", ["unlogged table", "view", "materialized view"])
def test_views_and_unlogged_tables_are_read_whole(database: Database, kind: str) -> None:
    database.execute(f"create {kind} v as select 7 as id")
    config = {"connection.url": database.jdbc_url, "connection.user": "postgres", "topic.prefix": "p-"}
    config |= {"mode": "bulk", "table.whitelist": "v", "table.types": "TABLE,VIEW,MATERIALIZED VIEW"}
    with run_task(JdbcSourceConnector, config) as task:
        assert [record.value for record in task.poll().records] == [{"id": 7}]
