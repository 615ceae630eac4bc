"""Lets another thread end a wait for brokers: a wait for an answer, or a pause before the next attempt."""

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
        """End the current wait, and every later one."""
        self._requested.set()
        with self._lock:
            for connection in self._held:
                connection.interrupt()

    def take(self, config: ClientConfig, address: Address, deadline: Deadline) -> Connection:
        """Take a connection from the pool. Raises the pool's errors, and BrokerUnavailableError if waiting must end."""
        self.check()
        connection = POOL.take(config, address, deadline=deadline, opening=self._hold)
        self._hold(connection)
        return connection

    def give_back(self, config: ClientConfig, connection: Connection) -> None:
        """Return a connection to the pool, which closes it if a request is in flight."""
        with self._lock:
            self._held.discard(connection)
        if self.requested:
            connection.close()
        POOL.give_back(config, connection)

    def sleep(self, seconds: float) -> None:
        """Pause. Raises BrokerUnavailableError if waiting must end."""
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
