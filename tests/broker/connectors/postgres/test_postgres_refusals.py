"""Connections that PostgreSQL refuses: its message is passed on in any language, and the connection is retried."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg
import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.errors import FencepostError, RetriableError
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.properties import JdbcConfig
from fencepost.connectors.postgres.changes.connection import ConnectionSettings
from fencepost.connectors.postgres.changes.connector import PostgresSourceConnector
from fencepost.connectors.postgres.server.connect import LoginRefusedError
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for
from tests.unit.connectors.support import errors_in

_CONNECTIONS = 20
# Lines of pg_hba.conf: the authentication method for each user.
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
    """The errors of refused connections, one of each of the two sources."""
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
    ("user", "password", "database", "words", "with_password"),
    [
        ("ada", "wrong", "postgres", 'password authentication failed for user "ada"', True),
        ("ada", None, "postgres", "no password supplied", True),
        ("ghost", None, "postgres", 'role "ghost" does not exist', False),
        ("sleeper", None, "postgres", 'role "sleeper" is not permitted to log in', False),
        ("stranger", "secret", "postgres", "no pg_hba.conf entry", False),
        ("ada", "secret", "nosuch", 'database "nosuch" does not exist', True),
    ],
)
def test_a_refused_login_is_tried_again_with_the_servers_words(  # noqa: PLR0917 - a row of the table
    server: EmbeddedPostgres, user: str, password: str | None, database: str, words: str, with_password: bool
):
    for error in refusals(server.port, user, password, database):
        assert isinstance(error, RetriableError)
        assert isinstance(error, LoginRefusedError) is with_password
        assert words in str(error)
        assert "If the server refuses the login, correct" in str(error)


def test_a_new_configuration_with_a_refused_password_is_refused(database: Database):
    topics = Topics(database, database_user="ada", database_password="wrong")
    errors = errors_in(PostgresSourceConnector(), topics.configs())
    assert "password authentication failed" in str(errors["database.password"])


@contextmanager
def german(state: str, said: str, logins: list[int]) -> Iterator[int]:
    """A server that refuses each client with a German message, as with lc_messages=de_DE. Yields its port."""

    class Refusal(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while True:
                (size,) = struct.unpack(">I", self.request.recv(4))
                (code,) = struct.unpack(">I", self.request.recv(size - 4)[:4])
                if code >> 16 == 3:
                    break
                # The answer to a TLS or GSSAPI request: not supported.
                self.request.sendall(b"N")
            logins.append(code)
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


def test_a_refused_login_is_one_login_and_its_words_may_be_of_any_language():
    said, logins = "Passwort-Authentifizierung für Benutzer »ada« fehlgeschlagen", list[int]()
    with german("28P01", said, logins) as port:
        for error in refusals(port, "ada", "secret", "shop"):
            assert isinstance(error, RetriableError)
            assert said in str(error)
    assert len(logins) == 2, "one of each source: a second one would count towards a lock-out"


def test_a_password_that_is_changed_and_set_back_is_waited_for(database: Database):
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
            wait_for(lambda: topics.failed("password authentication failed"), what="a refused login")
            database.execute("insert into t values (2)")
            database.execute("alter role ada password 'secret'")
            wait_for(lambda: len(topics.events("public.t")) == 2, what="the change after that")
        assert topics.fatal is None
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
