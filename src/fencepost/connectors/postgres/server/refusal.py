"""Why PostgreSQL refused a connection, by SQLSTATE.

libpq tells of a connection that was not made in words alone, and the server's are of its language (`lc_messages`). With
verbose messages it writes the SQLSTATE before them. The driver has no call for that, so libpq's own is taken, for an
attempt after the one that failed.

https://www.postgresql.org/docs/current/libpq-control.html#LIBPQ-PQSETERRORVERBOSITY
"""

from __future__ import annotations

import ctypes
import re
import select
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from psycopg import OperationalError, conninfo, pq
from psycopg.errors import ConnectionTimeout
from psycopg.pq.misc import find_libpq_full_path

_VERBOSE: Final = 2
_ATTEMPT_S: Final = 5.0
# Severity, SQLSTATE and text: `FATAL:  28P01: password authentication failed for user "ada"`.
_STATE: Final = re.compile(rb":  ([0-9A-Z]{5}): ")
# What another attempt does not change, and what to do. Others pass: no free connections (53300), a server that starts
# (57P03).
_REMEDIES: Final = {
    "28P01": "correct the user's name and password",
    "28": "correct the user, who must exist and have LOGIN, or let it in with a line of the server's pg_hba.conf",
    "3D": "correct the name of the database, or create it",
    "42501": "grant the user CONNECT on the database, and REPLICATION if it is to read changes",
    "0A": "the server does not support what the connection asks for: use a supported version of PostgreSQL",
    "22": "correct the options of the connection",
    "42": "correct the options of the connection",
}
# Words of libpq itself, which has no SQLSTATE for what the client lacks. Its language is that of the process, and Python
# leaves it at English.
_LOCAL: Final = ("no password supplied", "certificate", "private key", "does not support ssl")


def lasting_refusal(error: OperationalError, parameters: Mapping[str, str]) -> str | None:
    """Return why a connection cannot be made, and what to do; None if another attempt may make it.

    `error` is how an attempt with libpq's `parameters` failed.
    """
    if isinstance(error, ConnectionTimeout) or error.pgconn is None:
        return None
    states = _states(parameters)
    remedies = [_remedy(state) for state in states]
    if states and all(remedies):
        return f"SQLSTATE {states[-1]}: {remedies[-1]}"
    if not states and any(word in str(error).lower() for word in _LOCAL):
        return "correct the password, or the files and settings for TLS"
    return None


def _remedy(state: str) -> str | None:
    return next((text for start, text in _REMEDIES.items() if state.startswith(start)), None)


def _states(parameters: Mapping[str, str]) -> list[str]:
    """Return the SQLSTATEs with which the servers refuse a connection, none if it is made or they do not answer."""
    connection = pq.PGconn.connect_start(conninfo.make_conninfo(**parameters).encode())
    try:
        _be_verbose(connection)
        deadline = time.monotonic() + _ATTEMPT_S
        while (wanted := connection.connect_poll()) in _EVENTS and connection.status != pq.ConnStatus.BAD:
            poller = select.poll()
            poller.register(connection.socket, _EVENTS[wanted])
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
        return [state.decode() for state in _STATE.findall(connection.error_message)]
    finally:
        connection.finish()


_EVENTS: Final[dict[int, int]] = {
    int(pq.PollingStatus.READING): select.POLLIN,
    int(pq.PollingStatus.WRITING): select.POLLOUT,
}


def _be_verbose(connection: Any) -> None:
    # Without the call no SQLSTATE is told, and the connection is tried again.
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(_libpq_of(connection))
        library.PQsetErrorVerbosity(ctypes.c_void_p(connection.pgconn_ptr), _VERBOSE)


def _libpq_of(connection: Any) -> str | None:
    """Return the file of the libpq that a connection uses, or of a library that needs it."""
    # A library's handle finds what the libraries have that it needs: the driver's extension needs its libpq.
    if pq.__impl__ == "python":
        return find_libpq_full_path()
    return sys.modules[type(connection).__module__].__file__
