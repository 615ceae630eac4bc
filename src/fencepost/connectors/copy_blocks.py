"""The rows of PostgreSQL's COPY ... TO STDOUT in blocks, without a step per row.

A row is a message of the protocol, CopyData: `d`, length (4 bytes), the row. libpq returns one message per call, which
costs more than to parse the row. So libpq connects and authenticates, and then the messages are read from its socket.
As in a text there is no byte 0, `d` and a 0 stand only where a message begins, or within its length: if each such place
ends where the next one begins, they are the messages; otherwise the block is walked. On a TLS connection only libpq can
decrypt, so its calls are used.

https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn, PGresult

BLOCK_BYTES: Final = 1 << 20
"""About how much text a block has."""

_HEADER: Final = 5
_ROW, _ERROR, _READY = b"dEZ"

Positions = NDArray[np.int64]


def copy_blocks(
    connection: psycopg.Connection[Any], statement: str, block_bytes: int = BLOCK_BYTES
) -> Generator[pa.Buffer]:
    """Yield the text of all rows, whole rows at a time. `statement` is a COPY in a text format.

    Raises psycopg's errors. Unless the iterator is taken to its end, the connection is closed: there may be more rows on it.
    """
    if connection.pgconn.ssl_in_use:
        yield from _joined(copy_rows(connection, statement), block_bytes)
        return
    with closing(socket.socket(fileno=os.dup(connection.pgconn.socket))) as own:
        own.setblocking(True)
        try:
            yield from _Messages(own, block_bytes).blocks(statement)
        except BaseException:
            connection.close()
            raise


def copy_rows(connection: psycopg.Connection[Any], statement: str) -> Iterator[bytes]:
    """Yield the text of each row. Raises psycopg's errors.

    If the iterator is not taken to its end, the connection can only be closed.
    """
    import psycopg  # noqa: PLC0415 - an optional package

    server = connection.pgconn
    server.send_query(statement.encode())
    result = _result(server)
    if result is not None and result.status != psycopg.pq.ExecStatus.COPY_OUT:
        _result(server)
        raise psycopg.errors.error_from_result(result, encoding="utf-8")
    while True:
        # Not psycopg's own reading, which takes six times as long as libpq's.
        length, row = server.get_copy_data(1)
        if length > 0:
            yield bytes(row)
        elif length == 0:
            _wait(server)
        else:
            break
    result = _result(server)
    if result is not None and result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        _result(server)
        raise psycopg.errors.error_from_result(result, encoding="utf-8")
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


def _joined(rows: Iterator[bytes], block_bytes: int) -> Iterator[pa.Buffer]:
    block: list[bytes] = []
    size = 0
    for row in rows:
        block.append(row)
        size += len(row)
        if size >= block_bytes:
            yield pa.py_buffer(b"".join(block))
            block, size = [], 0
    if block:
        yield pa.py_buffer(b"".join(block))


class _Messages:
    """The messages of the server after one statement, read from its socket."""

    def __init__(self, own: socket.socket, block_bytes: int) -> None:
        self._socket = own
        self._data = bytearray(max(block_bytes, 2 * _HEADER))
        self._filled = 0
        self._closed = False

    def blocks(self, statement: str) -> Iterator[pa.Buffer]:
        """Send the statement, and yield the text of the rows up to where the server is ready for another one."""
        text = statement.encode() + b"\0"
        self._send(struct.pack(">cI", b"Q", len(text) + 4) + text)
        while True:
            starts, end = find_rows(self._data, self._filled)
            if len(starts):
                yield _text(self._data, starts, end)
            ready, end = self._skip_others(end)
            if ready:
                return
            if end:
                self._data[: self._filled - end] = bytes(self._data[end : self._filled])
                self._filled -= end
            else:
                self._fill()

    def _send(self, message: bytes) -> None:
        try:
            self._socket.sendall(message)
        except OSError as error:
            raise _lost(str(error)) from error

    def _fill(self) -> None:
        """Wait for more, until the block is nearly full or the server has nothing to add."""
        if self._closed:
            raise _lost("the server closed it")
        if self._filled == len(self._data):
            # One row is larger than the block.
            self._data = self._data + bytearray(len(self._data))
        view = memoryview(self._data)
        while self._filled < len(self._data):
            try:
                count = self._socket.recv_into(view[self._filled :])
            except OSError as error:
                raise _lost(str(error)) from error
            if not count:
                self._closed = True
                return
            self._filled += count
            if self._filled >= len(self._data) * 3 // 4 or self._at_end():
                return

    def _at_end(self) -> bool:
        """Whether the last bytes look like ReadyForQuery. If they only look so, a block is smaller."""
        last = self._data[max(0, self._filled - _HEADER - 1) : self._filled]
        return last[:_HEADER] == b"Z\0\0\0\5" or self._data[0] == _ERROR

    def _skip_others(self, at: int) -> tuple[bool, int]:
        """Skip messages other than rows; return whether the server is ready, and where the next row may begin.

        Raises the error that the server reports.
        """
        while self._filled - at >= _HEADER and self._data[at] != _ROW:
            end = at + 1 + int.from_bytes(self._data[at + 1 : at + _HEADER], "big")
            if end > self._filled:
                break
            if self._data[at] == _ERROR:
                raise _reported(bytes(self._data[at + _HEADER : end]))
            if self._data[at] == _READY:
                return True, end
            at = end
        return False, at


def find_rows(data: bytearray, filled: int) -> tuple[Positions, int]:
    """Return where the complete rows at the beginning of `data[:filled]` begin, and where the last one ends."""
    u8 = np.frombuffer(data, np.uint8, filled)
    starts = np.flatnonzero((u8[: max(filled - _HEADER + 1, 0)] == _ROW) & (u8[1 : max(filled - _HEADER + 2, 1)] == 0))
    if len(starts) and starts[0] == 0:
        ends = starts + 1 + np.ndarray((filled - 3,), ">u4", data, 0, (1,))[starts + 1].astype(np.int64)
        if (starts[1:] == ends[:-1]).all():
            if ends[-1] > filled:
                starts, ends = starts[:-1], ends[:-1]
            end = int(ends[-1]) if len(ends) else 0
            if end + 1 >= filled or data[end] != _ROW or data[end + 1] == 0:
                return starts, end
    return _walk(data, filled)


def _walk(data: bytearray, filled: int) -> tuple[Positions, int]:
    starts, at = [], 0
    while at + _HEADER <= filled and data[at] == _ROW:
        end = at + 1 + int.from_bytes(data[at + 1 : at + _HEADER], "big")
        if end > filled:
            break
        starts.append(at)
        at = end
    return np.array(starts, np.int64), at


def _text(data: bytearray, starts: Positions, end: int) -> pa.Buffer:
    """Return a copy of the rows without their headers: the block is an array in which every second value is one."""
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = starts, starts + _HEADER, end
    pieces = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    rows = pieces.take(pa.array(np.arange(1, 2 * len(starts), 2, dtype=np.int32)))
    size = end - _HEADER * len(starts)
    return rows.buffers()[2].slice(0, size)


def _reported(fields: bytes) -> psycopg.Error:
    """Return the error of an ErrorResponse: its fields are a letter and a text, each with a 0 at its end."""
    import psycopg  # noqa: PLC0415 - an optional package

    found = {field[:1]: field[1:].decode(errors="replace") for field in fields.split(b"\0") if field}
    detail = f"\nDETAIL:  {found[b'D']}" if b"D" in found else ""
    try:
        kind = psycopg.errors.lookup(found.get(b"C", ""))
    except KeyError:
        kind = psycopg.DatabaseError
    return kind(found.get(b"M", "an error without a text") + detail)


def _lost(reason: str) -> psycopg.Error:
    import psycopg  # noqa: PLC0415 - an optional package

    return psycopg.OperationalError(f"the connection broke: {reason}")
