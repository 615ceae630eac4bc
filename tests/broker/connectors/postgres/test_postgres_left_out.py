"""PostgresSource and relations in its table list whose changes are not in the server's WAL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.config.validation_context import ValidationContext
from fencepost.connectors.postgres.changes.connection import PostgresError
from fencepost.connectors.postgres.changes.connector import PostgresSourceConnector
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for

RELATIONS = {
    "view": ("create view odd as select * from t", "a view, .*JdbcSource"),
    "materialized": ("create materialized view odd as select * from t", "a materialized view, .*JdbcSource"),
    "foreign": (
        (
            "create extension file_fdw; create server files foreign data wrapper file_fdw; "
            "create foreign table odd(id int) server files options (filename '/dev/null')"
        ),
        "a foreign table, .*Capture it there",
    ),
    "unlogged": ("create unlogged table odd(id int primary key)", r"an unlogged table, .*SET LOGGED"),
    "partitioned": (
        (
            "create table odd(id int primary key) partition by range (id); "
            "create table p0 partition of odd for values from (0) to (9)"
        ),
        "a partitioned table, .*publish_via_partition_root",
    ),
}


@pytest.fixture(params=["all_tables", "filtered"])
def topics(request: pytest.FixtureRequest, database: Database) -> Iterator[Topics]:
    topics = Topics(database, publication_autocreate_mode=request.param)
    database.execute("create table t(id int primary key); insert into t values (1)")
    yield topics
    topics.drop_slot()


def errors(config: dict[str, str]) -> dict[str, str]:
    connector = PostgresSourceConnector()
    connector.context = ValidationContext(config, ANYWHERE)
    return {value.name: "".join(value.errors) for value in connector.validate(config) if value.errors}


@pytest.mark.parametrize("kind", RELATIONS)
@pytest.mark.parametrize("entry", [r"public\.odd", "public.ODD"])
def test_a_relation_that_cannot_be_captured_is_refused_by_name(
    topics: Topics, database: Database, kind: str, entry: str
):
    create, why = RELATIONS[kind]
    database.execute(create)
    topics.change(table_include_list=rf"public\.t,{entry}")
    with pytest.raises(PostgresError, match=f"table.include.list has public.odd, which is {why}; or remove it"):
        topics.run()
    assert "public.odd" in errors(dict(topics.configs()))["table.include.list"]


@pytest.mark.parametrize("kind", RELATIONS)
def test_a_relation_that_a_pattern_matches_is_warned_about(
    topics: Topics, database: Database, kind: str, caplog: pytest.LogCaptureFixture
):
    create, _ = RELATIONS[kind]
    database.execute(create)
    topics.change(table_include_list=r"public\.(t|odd)")
    assert not errors(dict(topics.configs()))
    topics.run()
    told = [
        record.getMessage()
        for record in caplog.records
        if "captures no changes of public.odd" in record.msg % record.args
    ]
    assert len(told) == 1
    assert topics.events("public.t")


def test_a_temporary_table_is_warned_about(topics: Topics, database: Database, caplog: pytest.LogCaptureFixture):
    topics.change(table_include_list=r"public\.t,.*\.brief")
    with database.connect() as session:
        session.execute("create temporary table brief(id int)")
        topics.run()
    assert any("brief, which is a temporary table" in message for message in caplog.messages)


def test_a_table_that_becomes_unlogged_while_it_is_captured_ends_the_task(topics: Topics, database: Database):
    topics.change(table_include_list=r"public\.t", publication_name="mine", publication_autocreate_mode="all_tables")
    topics.run()
    with topics.running():
        wait_for(topics.slot_in_use, what="the stream")
        database.execute("alter table t set unlogged")
        wait_for(lambda: topics.fatal, what="the task ends")
    assert "public.t, which is an unlogged table" in str(topics.fatal)


def test_an_entry_that_matches_nothing_is_warned_about(topics: Topics, caplog: pytest.LogCaptureFixture):
    topics.change(table_include_list=r"public\.t,public\.ordres")
    topics.run()
    told = r"No table is matched by public\.ordres of table.include.list"
    assert any(told in message for message in caplog.messages)


def test_partitions_and_their_root_are_captured_by_the_names_that_are_sent(
    topics: Topics, database: Database, caplog: pytest.LogCaptureFixture
):
    database.execute("create table m(id int primary key) partition by range (id)")
    database.execute("create table m0 partition of m for values from (0) to (9)")
    topics.change(table_include_list=r"public\.m,public\.m0")
    topics.run()
    database.execute("insert into m values (1)")
    topics.run()
    assert [key["id"] for key, _ in topics.events("public.m0")] == [1]
    assert not any("captures no changes" in message for message in caplog.messages)


def test_a_partition_whose_changes_have_the_name_of_its_root_is_refused(database: Database):
    database.execute("create table m(id int primary key) partition by range (id)")
    database.execute("create table m0 partition of m for values from (0) to (9)")
    database.execute("create publication mine for table m with (publish_via_partition_root)")
    topics = Topics(database, publication_name="mine", publication_autocreate_mode="disabled")
    topics.change(table_include_list=r"public\.m0")
    with pytest.raises(PostgresError, match=r"public.m0, which is a partition of public.m, .*List public.m"):
        topics.run()
    topics.change(table_include_list=r"public\.m")
    database.drop_slot(topics.slot)
    topics.committed_offset = None
    topics.run()
    database.execute("insert into m values (1)")
    topics.run()
    assert [key["id"] for key, _ in topics.events("public.m")] == [1]
    topics.drop_slot()
