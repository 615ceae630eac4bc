"""Writers that change a database at the same time, while its server may come and go."""

from __future__ import annotations

import contextlib
import random
import threading
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.support.postgres import Database


class Writers:
    """Threads that each do one transaction after the other, until the block ends. Subclasses say what one is."""

    def __init__(self, database: Database, count: int, seed: int, *, pause_s: float) -> None:
        self._database = database
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(random.Random(seed + n),)) for n in range(count)]
        self.done = 0
        """How many transactions ended, those too that were rolled back."""
        self.failures: list[Exception] = []

    def write(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        """Do one transaction, and end it."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the threads; does no harm twice. Fails if one of them failed."""
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
                    # Deadlocks, a full disk, and a server that is restarted, which also a rollback may find gone.
                    stack.close()
                    connection = None
                except Exception as error:  # noqa: BLE001 - handed to the test
                    self.failures.append(error)
                    break
