"""Lets another thread end waits for brokers: for answers, and pauses before the next attempt."""

from __future__ import annotations

import threading
from weakref import WeakSet

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import BrokerUnavailableError
from fencepost.kafka.transport.connection import Address, Connection
from fencepost.kafka.transport.pool import POOL


class Interruption:
    """Holds the connections of one user while it waits for answers. `request` may be called from any thread."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._lock = threading.Lock()
        self._held: WeakSet[Connection] = WeakSet()

    @property
    def requested(self) -> bool:
        """Whether waiting must end."""
        return self._requested.is_set()

    def request(self) -> None:
        """End all present and future waits."""
        self._requested.set()
        with self._lock:
            for connection in self._held:
                connection.interrupt()

    def take(self, config: ClientConfig, address: Address, deadline: Deadline) -> Connection:
        """Take a connection out of the pool. Raises as that does, and BrokerUnavailableError if it is too late."""
        self.check()
        connection = POOL.take(config, address, deadline=deadline, opening=self._hold)
        self._hold(connection)
        return connection

    def give_back(self, config: ClientConfig, connection: Connection) -> None:
        """Put a connection back into the pool, which closes it if something is in flight."""
        with self._lock:
            self._held.discard(connection)
        if self.requested:
            connection.close()
        POOL.give_back(config, connection)

    def sleep(self, seconds: float) -> None:
        """Pause. Raises BrokerUnavailableError if it was interrupted."""
        self._requested.wait(seconds)
        self.check()

    def check(self) -> None:
        """Raise BrokerUnavailableError if waiting must end."""
        if self.requested:
            raise BrokerUnavailableError("it was interrupted")

    def _hold(self, connection: Connection) -> None:
        with self._lock:
            self._held.add(connection)
        if self.requested:
            connection.interrupt()
