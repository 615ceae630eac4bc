"""A new database for each test, on a shared PostgreSQL server."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import psycopg

from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.processes import wait_for
from tests.support.topics import unique


class Database:
    """A new database; it is dropped at the end, with any connections that it still has."""

    def __init__(self, server: EmbeddedPostgres, encoding: str = "UTF8") -> None:
        self.server = server
        self.encoding = encoding
        self.name = unique("test").replace("-", "_")

    @classmethod
    def of_server(cls, server: EmbeddedPostgres) -> Self:
        """The database `postgres` of a server that is itself thrown away."""
        database = cls(server)
        database.name = "postgres"
        return database

    @property
    def conninfo(self) -> str:
        return self.server.conninfo(self.name)

    @property
    def jdbc_url(self) -> str:
        return self.server.jdbc_url(self.name)

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        return psycopg.connect(self.conninfo, autocommit=autocommit)

    def execute(self, statement: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement in its own transaction, and return its rows if it has any."""
        with self.connect() as connection:
            # The statements of tests are composed from parts.
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def drop_slot(self, name: str) -> None:
        """Drop a replication slot if it exists, and end the connection that uses it.

        The server notices a closed connection a moment later, and the task may reconnect before that.
        """

        def dropped() -> bool:
            self.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s", [name]
            )
            try:
                self.execute(
                    "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s", [name]
                )
            except psycopg.errors.ObjectInUse:
                return False
            return True

        wait_for(dropped, what=f"the slot {name} is dropped")

    def __enter__(self) -> Self:
        self._on_server(f"create database {self.name} encoding '{self.encoding}' template template0")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._on_server(f"drop database {self.name} with (force)")

    def _on_server(self, statement: str) -> None:
        with psycopg.connect(self.server.conninfo(), autocommit=True) as connection:
            connection.execute(statement.encode())
