"""Writers to the database of a demo, which do not know Kafka: threads with transactions, some rolled back."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

_PAUSE_S = 0.004


class DatabaseWriters(ABC):
    """Threads that write to a database. Their number of rolled back transactions is known after `writing`."""

    def __init__(self) -> None:
        self._committed: list[int] = []
        self._rolled_back: list[int] = []

    @property
    def rolled_back(self) -> int:
        """The number of transactions that were rolled back."""
        return sum(self._rolled_back)

    @abstractmethod
    def connect(self) -> AbstractContextManager[Any]:
        """Open a connection, which has `commit` and `rollback`."""

    @abstractmethod
    def write(self, connection: Any, number: int) -> bool:
        """Run the statements of one transaction in thread `number`. Return whether to commit the transaction."""

    @contextmanager
    def writing(self, count: int) -> Iterator[Callable[[], int]]:
        """Write in `count` threads during the block. Yields a function that counts the committed transactions."""
        stopping = threading.Event()
        self._committed, self._rolled_back = [0] * count, [0] * count
        threads = [threading.Thread(target=self._work, args=(number, stopping)) for number in range(count)]
        for thread in threads:
            thread.start()
        try:
            yield lambda: sum(self._committed)
        finally:
            stopping.set()
            for thread in threads:
                thread.join()

    def _work(self, number: int, stopping: threading.Event) -> None:
        with self.connect() as connection:
            while not stopping.wait(_PAUSE_S):
                if self.write(connection, number):
                    connection.commit()
                    self._committed[number] += 1
                else:
                    connection.rollback()
                    self._rolled_back[number] += 1


class PostgresWriters(DatabaseWriters):
    """Threads that write to PostgreSQL."""

    def __init__(self, conninfo: str, tables: bytes) -> None:
        """`tables` are the statements that create the tables."""
        super().__init__()
        self._conninfo = conninfo
        self._watching: Connection[Any] | None = None
        with self.connect() as connection:
            connection.execute(tables)

    @contextmanager
    def writing(self, count: int) -> Iterator[Callable[[], int]]:
        """Write as the base class does, with one more connection, for `slot_position`."""
        with closing(self.connect(autocommit=True)) as self._watching, super().writing(count) as committed:
            yield committed

    def slot_position(self) -> str | None:
        """Return the position in the log that the connector's slot has confirmed, None if there is no slot.

        Call it only within `writing`.
        """
        assert self._watching is not None  # noqa: S101 - see above
        found = self._watching.execute(b"SELECT confirmed_flush_lsn::text FROM pg_replication_slots").fetchone()
        return None if found is None else found[0]

    def connect(self, *, autocommit: bool = False) -> Connection[Any]:
        """Open a connection."""
        import psycopg  # noqa: PLC0415 - the command says how to install it

        return psycopg.connect(self._conninfo, autocommit=autocommit)
