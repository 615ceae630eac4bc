"""The rows of a SELECT as text, by COPY ... TO STDOUT (FORMAT csv).

A row is a message of the protocol. psycopg's own reading of these takes six times as long as libpq's.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fencepost.connectors.jdbc.connection import load_driver

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

    from fencepost.connectors.jdbc.connection import Connection

_MORE: Final = 0


def copy_rows(connection: Connection, query: str) -> Iterator[bytes]:
    """Yield each row of a SELECT as a line of CSV. Raises psycopg's errors.

    If the iterator is not taken to its end, the connection can only be closed.
    """
    driver, server = load_driver(), connection.pgconn
    server.send_query(f"copy ({query}) to stdout (format csv)".encode())
    result = _result(server)
    if result is not None and result.status != driver.pq.ExecStatus.COPY_OUT:
        _result(server)
        raise driver.errors.error_from_result(result, encoding="utf-8")
    while True:
        length, row = server.get_copy_data(1)
        if length > _MORE:
            yield bytes(row)
        elif length == _MORE:
            _wait(server)
        else:
            break
    result = _result(server)
    if result is not None and result.status != driver.pq.ExecStatus.COMMAND_OK:
        _result(server)
        raise driver.errors.error_from_result(result, encoding="utf-8")
    _result(server)


def _result(server: PGconn) -> PGresult | None:
    """Return the next result, without holding up other threads until it is there."""
    while server.flush():
        _ready(server, select.POLLIN | select.POLLOUT)
        server.consume_input()
    while server.is_busy():
        _wait(server)
    return server.get_result()


def _wait(server: PGconn) -> None:
    _ready(server, select.POLLIN)
    server.consume_input()


def _ready(server: PGconn, events: int) -> None:
    # select() refuses descriptors above 1023, of which a worker may have many.
    waiting = select.poll()
    waiting.register(server.socket, events)
    waiting.poll()
