"""Idle connections of this process. They are kept so that the next job or transaction need not open new ones.

A connection belongs to one user at a time. Only connections without requests in flight are kept. After a fork, the
child process starts without connections, because it would share its parent's sockets.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.transport.connection import Address, Connection

_MOST_IDLE: Final = 8
"""The maximum number of idle connections for each broker and configuration. Several tasks may write at once."""

_SWEEP_S: Final = 30.0
"""The interval, in seconds, at which connections that were idle for too long are closed."""


class ConnectionPool:
    """Idle connections by client configuration and broker. Thread-safe."""

    def __init__(self, sweep_s: float = _SWEEP_S) -> None:
        self._sweep_s = sweep_s
        self._swept_at = time.monotonic()
        self._lock = threading.Lock()
        self._idle: dict[tuple[ClientConfig, Address], list[Connection]] = {}
        self._users: Counter[ClientConfig] = Counter()

    def join(self, config: ClientConfig) -> None:
        """Register a user of a configuration's connections. The user calls `leave` when it is done."""
        with self._lock:
            self._users[config] += 1

    def leave(self, config: ClientConfig) -> None:
        """Unregister a user. After the last user, the configuration's idle connections are closed."""
        useless: list[Connection] = []
        with self._lock:
            self._users[config] -= 1
            if self._users[config] <= 0:
                del self._users[config]
                for key in [key for key in self._idle if key[0] == config]:
                    useless += self._idle.pop(key)
        for connection in useless:
            connection.close()

    def take(
        self,
        config: ClientConfig,
        address: Address,
        *,
        deadline: Deadline | None = None,
        opening: Callable[[Connection], None] = lambda _: None,
    ) -> Connection:
        """Return an idle connection, or open one. `deadline` and `opening` are passed to `Connection`.

        Raises the errors of `Connection`.
        """
        while True:
            with self._lock:
                idle = self._idle.get((config, address))
                connection = idle.pop() if idle else None
            if connection is None:
                return Connection(address, config, deadline=deadline, opening=opening)
            if connection.fit_for_reuse and not connection.broken_while_idle():
                return connection
            connection.close()

    def give_back(self, config: ClientConfig, connection: Connection) -> None:
        """Keep a connection for its next user, or close it if it cannot be reused."""
        closing = [connection]
        with self._lock:
            if connection.fit_for_reuse:
                idle = self._idle.setdefault((config, connection.address), [])
                if len(idle) < _MOST_IDLE:
                    idle.append(connection)
                    closing = []
            closing += self._sweep()
        for useless in closing:
            useless.close()

    def _sweep(self) -> list[Connection]:
        """From time to time, remove and return the connections that were idle for too long."""
        now = time.monotonic()
        if now < self._swept_at + self._sweep_s:
            return []
        self._swept_at = now
        useless: list[Connection] = []
        for key, idle in list(self._idle.items()):
            fit: list[Connection] = []
            for connection in idle:
                (fit if connection.fit_for_reuse else useless).append(connection)
            if fit:
                self._idle[key] = fit
            else:
                del self._idle[key]
        return useless

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            connections = [connection for idle in self._idle.values() for connection in idle]
            self._idle.clear()
        for connection in connections:
            connection.close()

    def forget_after_fork(self) -> None:
        """Drop inherited state. A thread that does not exist in this process may have held the lock."""
        self._lock = threading.Lock()
        self._users.clear()
        self.close()


POOL: Final = ConnectionPool()
os.register_at_fork(after_in_child=POOL.forget_after_fork)
