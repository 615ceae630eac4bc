"""What surrounds a connection to PostgreSQL: the worker's environment, the role of the server, and other connectors."""

from __future__ import annotations

import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.properties import JdbcConfig
from fencepost.connectors.postgres.changes.connection import ConnectionSettings, PostgresError, command
from fencepost.connectors.postgres.changes.connector import PostgresSourceConnector
from fencepost.connectors.postgres.changes.slot import slot as slots
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.postgres import Database
from tests.support.postgres_task import Topics


@pytest.mark.parametrize(
    ("name", "value"), [("PGDATESTYLE", "German"), ("PGDATESTYLE", "SQL, DMY"), ("PGTZ", "Asia/Tokyo")]
)
def test_the_environment_does_not_change_the_form_of_times(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch, name: str, value: str
):
    monkeypatch.setenv(name, value)
    database.execute("create table t(id timestamptz primary key, day date)")
    row = "insert into t values ('2024-05-01 12:30+00', '2024-05-01'::date + {})"
    database.execute(row.format(0))
    topics.run()
    database.execute("truncate t; " + row.format(1))
    topics.run()

    events = [(key, event["after"]) for key, event in topics.events("public.t") if key is not None]
    at = "2024-05-01T12:30:00Z"
    assert events == [({"id": at}, {"id": at, "day": 19844}), ({"id": at}, {"id": at, "day": 19845})]


def test_the_environment_does_not_choose_the_server(postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch):
    # No server listens on this address.
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.9")
    url = f"jdbc:postgresql://localhost:{postgres.port},127.0.0.1:{postgres.port}/postgres"
    jdbc = JdbcConfig.parse({"connection.url": url, "connection.user": "postgres", "topic.prefix": "p"})

    with ConnectionSettings("127.0.0.1", postgres.port, "postgres", "postgres").connect() as connection:
        assert connection.info.port == postgres.port
    with PostgresAddress.of(jdbc.values, ANYWHERE).connect() as connection:
        assert connection.info.port == postgres.port


def test_timeouts_of_the_role_do_not_end_sessions_that_wait(database: Database):
    role = f"waiting_{database.name}"
    names = ["idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout"]
    known = [name for (name,) in database.execute("select name from pg_settings where name = any(%s)", [names])]
    database.execute(f"create role {role} login replication")
    for name in known:
        database.execute(f"alter role {role} set {name} = '5s'")
    jdbc = {"connection.url": database.jdbc_url, "connection.user": role, "topic.prefix": "p"}
    settings = ConnectionSettings("127.0.0.1", database.server.port, role, database.name)
    address = PostgresAddress.of(JdbcConfig.parse(jdbc).values, ANYWHERE)
    try:
        for connect in (settings.connect, settings.connect_for_replication, address.connect):
            with closing(connect()) as connection:
                assert [command(connection, f"SHOW {name}") for name in known] == [[["0"]]] * len(known)
    finally:
        database.execute(f"drop role {role}")


def test_a_standby_is_refused_before_anything_is_read():
    folder = Path(tempfile.mkdtemp(prefix="fencepost-standby-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        primary = stack.enter_context(EmbeddedPostgres())
        database = stack.enter_context(Database(primary))
        database.execute(
            "create table t(id int primary key); insert into t values (1); create publication mine for table t"
        )
        standby = EmbeddedPostgres(folder, settings={"hot_standby": "on"})
        standby.base_backup(primary, "--write-recovery-conf", "--checkpoint", "fast")
        stack.enter_context(standby)
        topics = Topics(database, publication_name="mine", publication_autocreate_mode="disabled")
        topics.change(database_port=str(standby.port))

        with pytest.raises(PostgresError, match=r"is a standby: set database.hostname .*promote it"):
            topics.run()
        assert topics.committed_offset is None
        connector = PostgresSourceConnector()
        connector.context = topics  # type: ignore[assignment]
        config = {**topics.configs(), "name": "c", "connector.class": "PostgresSource"}
        (refused,) = [value for value in connector.validate(config) if value.errors]
        assert refused.name == "database.hostname"
        assert "is a standby" in refused.errors[0]


def test_connectors_that_create_one_publication_at_once_both_get_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    database.execute("create table a(id int primary key); insert into a values (1)")
    database.execute("create table b(id int primary key); insert into b values (1)")
    mine = {"publication_name": "mine", "publication_autocreate_mode": "filtered"}
    both = [Topics(database, table_include_list=rf"public\.{name}", **mine) for name in "ab"]
    create, meeting = slots.create_publication, threading.Barrier(2)

    def together(*arguments: object) -> None:
        meeting.wait()
        create(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(slots, "create_publication", together)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(Topics.run, both))
    for topics, name in zip(both, "ab", strict=True):
        assert [key["id"] for key, _ in topics.events(f"public.{name}")] == [1]
        topics.drop_slot()
    assert any(topics.failed("was changed by somebody else") for topics in both)


@pytest.mark.parametrize("table", ["t", "u"])
def test_connectors_that_add_tables_at_once_both_get_them(
    database: Database, monkeypatch: pytest.MonkeyPatch, table: str
):
    database.execute("create table s(id int primary key); create publication mine for table s")
    database.execute("create table t(id int primary key); create table u(id int primary key)")
    mine = {"publication_name": "mine", "publication_autocreate_mode": "filtered"}
    both = [Topics(database, table_include_list=rf"public\.{name}", **mine) for name in ("t", table)]
    add, meeting = slots.add_tables, threading.Barrier(2)

    def together(*arguments: object) -> None:
        meeting.wait()
        add(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(slots, "add_tables", together)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(Topics.run, both))
    with database.connect() as connection:
        assert slots.member_tables(connection, "mine") == ["public.s", *sorted({"public.t", f"public.{table}"})]
    for topics in both:
        topics.drop_slot()


def test_a_change_that_the_server_cannot_send_ends_the_task(postgres: EmbeddedPostgres):
    with Database(postgres, encoding="SQL_ASCII") as database:
        database.execute("create table t(id int primary key, v text)")
        topics = Topics(database)
        topics.run()
        database.execute(r"insert into t values (1, convert_from('\xe9ff', 'SQL_ASCII'))")

        with pytest.raises(PostgresError, match=r"invalid byte sequence.*associated LSN.*correct the value.*To resync"):
            topics.run()
        topics.drop_slot()
