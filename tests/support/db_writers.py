"""Threads that write to a database concurrently, also while its server is restarted."""

from __future__ import annotations

import contextlib
import random
import threading
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.support.postgres import Database


class Writers:
    """Threads that each run one transaction after the other, until the block ends.

    Subclasses define the transaction.
    """

    def __init__(self, database: Database, count: int, seed: int, *, pause_s: float) -> None:
        self._database = database
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(random.Random(seed + n),)) for n in range(count)]
        self.done = 0
        """The number of transactions so far, with rolled back ones."""
        self.failures: list[Exception] = []

    def write(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        """Run one transaction, and end it."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the threads; may be called twice. Fails if one of them failed."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        assert not self.failures, self.failures

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _work(self, chance: random.Random) -> None:
        with contextlib.ExitStack() as stack:
            connection: psycopg.Connection[Any] | None = None
            while not self._stopping.wait(chance.random() * self._pause_s * 2):
                try:
                    if connection is None:
                        connection = stack.enter_context(contextlib.closing(self._database.connect(autocommit=False)))
                    self.write(connection, chance)
                    self.done += 1
                except psycopg.OperationalError:
                    # Deadlocks, a full disk, and a server restart, which may also make a rollback fail.
                    stack.close()
                    connection = None
                except Exception as error:  # noqa: BLE001 - handed to the test
                    self.failures.append(error)
                    break
