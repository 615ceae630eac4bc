"""Errors of the embedded servers.

EmbeddedError
├── JavaNotFoundError      no Java 17 or later on this machine
├── JarsUnavailableError   the jars of a program are not cached and cannot be fetched
├── PortTakenError         another program listens on a requested port
├── DataDirError           the data folder cannot be written, or belongs to another layout
├── BrokerStartError       the broker's process ended or stayed silent; the message has the end of its log
├── RegistryStartError     the registry's process ended or stayed silent
├── MariaDbMissingError    there are no programs of MariaDB for this machine
├── MariaDbError           the server's process ended or stayed silent, or refused a statement
├── PostgresMissingError   the programs of PostgreSQL are not installed
└── PostgresStartError     the server's process ended or stayed silent; the message has the end of its log

Each message says what the user can do.
"""

from __future__ import annotations

from fencepost.api.errors import FencepostError


class EmbeddedError(FencepostError):
    """The base of the embedded servers' errors. This class itself is never raised."""


class JavaNotFoundError(EmbeddedError):
    """There is no Java 17 or later on this machine."""


class JarsUnavailableError(EmbeddedError):
    """The jars of a program are not in the cache and could not be fetched."""


class PortTakenError(EmbeddedError):
    """Another program listens on the port."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} of 127.0.0.1 is taken by another program: stop it, or choose another port")
        self.port = port

    def __reduce__(self) -> tuple[type[PortTakenError], tuple[int]]:
        return PortTakenError, (self.port,)


class DataDirError(EmbeddedError):
    """The data folder cannot be used."""


class BrokerStartError(EmbeddedError):
    """The broker's process ended while it started, or did not answer in time."""


class RegistryStartError(EmbeddedError):
    """The schema registry's process ended while it started, or did not answer in time."""


class MariaDbMissingError(EmbeddedError):
    """There are no programs of MariaDB that run on this machine."""


class MariaDbError(EmbeddedError):
    """The server's process ended while it started, did not get ready in time, or refused a statement."""


class PostgresMissingError(EmbeddedError):
    """The programs of PostgreSQL are not installed."""


class PostgresStartError(EmbeddedError):
    """The server's process ended while it started, or did not get ready in time."""
