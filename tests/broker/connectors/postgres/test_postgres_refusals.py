"""Connections that PostgreSQL refuses: what lasts fails with what to do, in any language; what passes is waited for."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg
import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.errors import ConfigError, FencepostError, RetriableError
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.properties import JdbcConfig
from fencepost.connectors.postgres.changes.connection import ConnectionSettings, PostgresError
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for

_CONNECTIONS = 20
# Who may come in, and how.
_LINES = """\
host all,replication postgres 127.0.0.1/32 trust
host all,replication ada 127.0.0.1/32 scram-sha-256
host all,replication ghost,sleeper 127.0.0.1/32 trust
"""


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    settings = {"max_connections": str(_CONNECTIONS), "superuser_reserved_connections": "3"}
    with EmbeddedPostgres(settings=settings) as server:
        with Database(server) as database:
            database.execute("create role ada login replication password 'secret'")
            database.execute("create role sleeper")
        (server.data_folder / "pg_hba.conf").write_text(_LINES)
        server.restart()
        yield server


@pytest.fixture
def database(server: EmbeddedPostgres) -> Iterator[Database]:
    with Database(server) as database:
        yield database


def refusals(port: int, user: str, password: str | None = None, database: str = "postgres") -> list[FencepostError]:
    """How a connection of each of the two sources fails."""
    url = f"jdbc:postgresql://127.0.0.1:{port}/{database}"
    jdbc = {"connection.url": url, "connection.user": user, "topic.prefix": "p"}
    jdbc |= {} if password is None else {"connection.password": password}
    address = PostgresAddress.of(JdbcConfig.parse(jdbc).values, ANYWHERE)
    found = []
    for attempt in (ConnectionSettings("127.0.0.1", port, user, database, password).connect, address.connect):
        with pytest.raises(FencepostError) as failure:
            attempt()
        found.append(failure.value)
    return found


@pytest.mark.parametrize(
    ("user", "password", "database", "state", "remedy"),
    [
        ("ada", "wrong", "postgres", "SQLSTATE 28P01", "correct the user's name and password"),
        ("ada", None, "postgres", "no password supplied", "correct the password"),
        ("ghost", None, "postgres", "SQLSTATE 28000", "correct the user, who must exist and have LOGIN"),
        ("sleeper", None, "postgres", "SQLSTATE 28000", "correct the user, who must exist and have LOGIN"),
        ("stranger", "secret", "postgres", "SQLSTATE 28000", "pg_hba.conf"),
        ("ada", "secret", "nosuch", "SQLSTATE 3D000", "correct the name of the database"),
    ],
)
def test_a_refusal_that_lasts_is_no_reason_to_try_again(  # noqa: PLR0917 - a row of the table
    server: EmbeddedPostgres, user: str, password: str | None, database: str, state: str, remedy: str
):
    of_changes, of_tables = refusals(server.port, user, password, database)
    assert isinstance(of_changes, PostgresError)
    assert isinstance(of_tables, ConfigError)
    for error in (of_changes, of_tables):
        assert state in str(error)
        assert remedy in str(error)


def test_a_user_who_may_not_replicate_is_told_so(database: Database):
    database.execute("alter role ada noreplication")
    settings = ConnectionSettings("127.0.0.1", database.server.port, "ada", database.name, "secret")
    try:
        with pytest.raises(PostgresError, match=r"SQLSTATE 42501: .*REPLICATION"):
            settings.connect_for_replication()
    finally:
        database.execute("alter role ada replication")


@contextmanager
def german(state: str, said: str) -> Iterator[int]:
    """The port of a server that refuses everybody as one with lc_messages=de_DE does."""

    class Refusal(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while True:
                (size,) = struct.unpack(">I", self.request.recv(4))
                (code,) = struct.unpack(">I", self.request.recv(size - 4)[:4])
                if code >> 16 == 3:
                    break
                # It has neither TLS nor GSSAPI.
                self.request.sendall(b"N")
            fields = ("SFATAL", "VFATAL", f"C{state}", f"M{said}", "Fauth.c", "L331", "Rauth_failed", "")
            body = b"".join(field.encode() + b"\0" for field in fields)
            self.request.sendall(b"E" + struct.pack(">I", len(body) + 4) + body)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusal) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("state", "said", "lasting"),
    [
        ("28P01", "Passwort-Authentifizierung für Benutzer »ada« fehlgeschlagen", True),
        ("28000", "kein pg_hba.conf-Eintrag für Host »127.0.0.1«", True),
        ("3D000", "Datenbank »shop« existiert nicht", True),
        ("53300", "tut mir leid, schon zu viele Verbindungen", False),
        ("57P03", "das Datenbanksystem startet", False),
        # What is not a refusal of the password may have the word.
        ("58000", "could not read the file of the password", False),
    ],
)
def test_refusals_are_told_apart_in_any_language(state: str, said: str, lasting: bool):
    with german(state, said) as port:
        for error in refusals(port, "ada", "secret", "shop"):
            assert isinstance(error, RetriableError) is not lasting
            assert said in str(error)


def test_a_password_that_is_changed_while_a_task_runs_ends_it(database: Database):
    database.execute("create table t(id int primary key)")
    database.execute("grant all on t to ada; alter table t owner to ada")
    database.execute(f"grant create on database {database.name} to ada")
    filtered = {"publication_autocreate_mode": "filtered", "database_password": "secret"}
    topics = Topics(database, database_user="ada", **filtered)
    try:
        topics.run()
        with topics.running():
            wait_for(topics.slot_in_use, what="the stream")
            database.execute("alter role ada password 'another'")
            database.execute("insert into t values (1)")
            wait_for(lambda: topics.events("public.t"), what="the change, over the connection that there is")
            end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'ada'"
            database.execute(end)
            wait_for(lambda: topics.fatal, what="the task ends")
        assert isinstance(topics.fatal, PostgresError)
        assert "SQLSTATE 28P01: correct the user's name and password" in str(topics.fatal)

        topics.change(database_password="another")
        database.execute("insert into t values (2)")
        topics.run()
        assert [key["id"] for key, _ in topics.events("public.t")] == [1, 2]
    finally:
        database.execute("alter role ada password 'secret'")
        topics.drop_slot()


def test_a_server_without_free_connections_is_waited_for(database: Database):
    database.execute("create table t(id int primary key); insert into t values (1)")
    topics = Topics(database)
    with ExitStack() as taken:
        with suppress(psycopg.OperationalError):
            while True:
                taken.enter_context(database.connect())
        with topics.running():
            wait_for(lambda: topics.failed("too many clients"), what="a failure of the task")
            taken.close()
            wait_for(lambda: topics.events("public.t"), what="the row")
    assert topics.fatal is None
    topics.drop_slot()
