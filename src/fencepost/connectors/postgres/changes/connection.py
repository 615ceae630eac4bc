"""Connections to PostgreSQL through libpq (psycopg), and the errors that they raise.

Sessions write dates, numbers and bytes in fixed forms, whatever the settings of the server, database or role are.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from fencepost.api.errors import FencepostError, RetriableError
from fencepost.connectors.postgres.server.connect import VALUE_FORMS, WITHOUT_TIMEOUTS, connect, load_driver

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn, PGresult

_SESSION: Final = VALUE_FORMS | {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "search_path": "pg_catalog",
    # With this setting, the server refuses to read a table if row-level security would hide rows. The stream contains
    # all rows, so a snapshot must contain them, too.
    "row_security": "off",
}
_CORRECTED: Final = "the connector's database.* properties"
_WAITING_MS: Final = 1000
_CANCEL_S: Final = 5.0
_LOCK_NOT_AVAILABLE: Final = "55P03"
_CHECK_OF_POLICIES: Final = "check_enable_rls"
_OTHER: Final = {"client_encoding": "UTF8", "application_name": "fencepost"}
# libpq also sends PGDATESTYLE and PGTZ from the process's environment, and the server prefers these to `options`.
_SETTINGS: Final = "; ".join(
    [
        *(f"SET {name} = '{_SESSION[name]}'" for name in ("DateStyle", "TimeZone")),
        WITHOUT_TIMEOUTS,
    ]
)
# Classes of SQLSTATE after which a later attempt may succeed: connection, transaction rollback, resources, operator
# intervention, system error, objects in use, and locks. https://www.postgresql.org/docs/current/errcodes-appendix.html
_TEMPORARY: Final = ("08", "40", "53", "57", "58", "55006", "55P03")


class PostgresError(FencepostError):
    """PostgreSQL refused a request, and will refuse it again."""


class PositionLostError(PostgresError):
    """The server cannot continue at the connector's offset: changes would be missing."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The settings for connecting to a database. `options` are libpq's options, for example `sslmode`."""

    host: str
    port: int
    user: str
    database: str
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def parameters(self, **more: str) -> dict[str, str]:
        """Return the connection parameters for libpq."""
        session = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
        given = {"host": self.host, "port": str(self.port), "user": self.user, "dbname": self.database}
        if self.password is not None:
            given["password"] = self.password
        return {**given, "options": session, **_OTHER, **self.options, **more}

    def connect(self) -> psycopg.Connection[Any]:
        """Return a connection for statements, in autocommit mode. Raises RetriableError or PostgresError."""
        return self._connected(f"The connection to PostgreSQL at {self} failed")

    def connect_for_replication(self) -> psycopg.Connection[Any]:
        """Return a connection for replication commands. Raises RetriableError or PostgresError."""
        return self._connected(f"The connection to PostgreSQL at {self} for replication failed", replication="database")

    def _connected(self, failure: str, **more: str) -> psycopg.Connection[Any]:
        try:
            connection = connect(self.parameters(**more), failure, _CORRECTED)
        except driver_error() as error:
            raise translated(error, failure) from error
        try:
            command(connection, _SETTINGS)
        except BaseException:
            connection.close()
            raise
        return connection


def command(
    connection: psycopg.Connection[Any], text: str, waiting: Callable[[], object] = lambda: None
) -> list[list[str | None]]:
    """Run a replication command, and return its rows. Raises RetriableError or PostgresError.

    `waiting` is called each second until the server answers. An error that `waiting` raises cancels the command.
    """
    from psycopg import pq  # noqa: PLC0415 - an optional package

    try:
        result = _answer(connection.pgconn, text, waiting)
    except load_driver().Error as error:
        raise translated(error, f"PostgreSQL did not answer {text.split(maxsplit=1)[0]}") from error
    except FencepostError:
        with suppress(load_driver().Error):
            connection.cancel_safe(timeout=_CANCEL_S)
        raise
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"08000").decode()
        message = _line(result.error_message.decode(errors="replace"))
        raise _of_state(state, f"PostgreSQL refused {text.split(maxsplit=1)[0]}: {message}")
    return [
        [
            None if (value := result.get_value(row, column)) is None else value.decode()
            for column in range(result.nfields)
        ]
        for row in range(result.ntuples)
    ]


def _answer(connection: PGconn, text: str, waiting: Callable[[], object]) -> PGresult:
    """Return the first result of a command. Raises psycopg's errors."""
    # PGconn.exec_ is not used, because it blocks all threads of the process until the server answers.
    connection.send_query(text.encode())
    poller = select.poll()
    poller.register(connection.socket, select.POLLIN)
    first: PGresult | None = None
    while True:
        while connection.is_busy():
            if poller.poll(_WAITING_MS):
                connection.consume_input()
            else:
                waiting()
        result = connection.get_result()
        if result is None:
            break
        first = result if first is None else first
    if first is None:
        raise RetriableError("PostgreSQL gave no answer: the connection broke")
    return first


def query(connection: psycopg.Connection[Any], text: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows. Raises RetriableError or PostgresError."""
    driver = load_driver()
    try:
        cursor = connection.execute(text.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []
    except driver.Error as error:
        raise translated(error, f"A statement failed ({' '.join(text.split())[:80]})") from error


def run_together(connection: psycopg.Connection[Any], *statements: str) -> None:
    """Run several statements in one round trip. Raises RetriableError or PostgresError."""
    text = "; ".join(statements)
    try:
        # Several statements in one text cannot be prepared, but the driver would try to do so after some repetitions.
        connection.execute(text.encode(), prepare=False)
    except load_driver().Error as error:
        raise translated(error, f"A statement failed ({' '.join(text.split())[:80]})") from error


def check_statement(connection: psycopg.Connection[Any], text: str) -> None:
    """Make the server check that a text is one statement, and that it can run.

    Raises RetriableError or PostgresError.
    """
    try:
        # A prepared statement must be one statement; a simple query may have several.
        connection.execute(text.encode(), prepare=True)
    except load_driver().Error as error:
        raise translated(error, f"A statement failed ({' '.join(text.split())[:80]})") from error


def driver_error() -> type[psycopg.Error]:
    """Return the class of the errors that the driver itself raises."""
    return cast("type[psycopg.Error]", load_driver().Error)


def translated(error: psycopg.Error, what: str) -> FencepostError:
    """Return the error to raise for an error of psycopg: a RetriableError if a later attempt may succeed."""
    message = f"{what}: {_line(str(error))}"
    if error.sqlstate is None:
        # An error without SQLSTATE comes from libpq itself: the connection broke.
        return RetriableError(message)
    if error.sqlstate == _LOCK_NOT_AVAILABLE:
        message += ". Another transaction has locked a table (pg_locks tells which): it is tried again"
    # The SQLSTATE is the same for all missing rights, and the message is in the server's language, so neither shows
    # that a policy is the cause.
    if error.diag.source_function == _CHECK_OF_POLICIES:
        message += (
            ". The stream has the rows that policies hide from the user as well: let the user read all of them (ALTER ROLE "
            "... BYPASSRLS), or leave the table out"
        )
    return _of_state(error.sqlstate, message)


def _of_state(state: str, message: str) -> FencepostError:
    return RetriableError(message) if state.startswith(_TEMPORARY) else PostgresError(message)


def _line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"
