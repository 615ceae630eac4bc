"""The rows of PostgreSQL's COPY ... TO STDOUT in blocks, without a step for each row.

A row is a CopyData message of the protocol: `d`, length (4 bytes), the row. libpq returns one message per call, which
costs more than parsing the row. So libpq connects and authenticates, and after that the messages are read from its
socket. Rows start with `d` and a few more known bytes, their marks. Bytes within a row may look like marks, too. If
each candidate ends where the next one starts, the candidates are the messages; otherwise the block is searched message
by message. On a TLS connection only libpq can decrypt, so its calls are used.

In the binary format a header precedes the first row in the row's message, and the last message is a trailer, not a row.

https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY
https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn, PGresult

BLOCK_BYTES: Final = 1 << 20
"""The approximate number of bytes of a block."""

HEADER: Final = 5
"""The number of bytes of a message before its content."""

_ROW, _ERROR, _READY, _COPY_OUT = b"dEZH"
_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_FILE_HEADER: Final = len(_SIGNATURE) + 8
_TRAILER: Final = b"d\0\0\0\6\xff\xff"

Positions = NDArray[np.int64]
Marks = Sequence[tuple[int, int]]
"""Bytes at fixed positions in each message: pairs of a position, from the start of the message, and the byte there."""

TEXT_MARKS: Final[Marks] = ((1, 0),)
"""The marks of rows in text formats: a length below 16 MiB begins with the byte 0, and text has no byte 0."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Complete rows: where their messages start in `data`, and where the last message ends.

    The rows are valid until the next rows are read.
    """

    data: bytearray
    starts: Positions
    end: int


def copy_blocks(
    connection: psycopg.Connection[Any], statement: str, block_bytes: int = BLOCK_BYTES
) -> Generator[pa.Buffer]:
    """Yield the text of all rows, in blocks of complete rows. `statement` is a COPY in a text format.

    Raises psycopg's errors. If the iterator is not exhausted, the connection is closed, because it may still contain
    rows.
    """
    for messages in copy_messages(connection, statement, block_bytes):
        yield _text(messages)


def copy_messages(
    connection: psycopg.Connection[Any], statement: str, block_bytes: int, marks: Marks = TEXT_MARKS
) -> Generator[Messages]:
    """Yield all rows as messages, in blocks. `statement` is a COPY in any format; `marks` are the marks of its rows.

    Raises psycopg's errors, and closes the connection, as `copy_blocks` does.
    """
    if connection.pgconn.ssl_in_use:
        yield from _joined(copy_rows(connection, statement), block_bytes)
        return
    with closing(socket.socket(fileno=os.dup(connection.pgconn.socket))) as own:
        own.setblocking(True)
        try:
            yield from _Reader(own, block_bytes, marks).messages(statement)
        except BaseException:
            connection.close()
            raise


def copy_rows(connection: psycopg.Connection[Any], statement: str) -> Iterator[bytes]:
    """Yield the text of each row. Raises psycopg's errors.

    If the iterator is not exhausted, the connection can only be closed afterwards.
    """
    import psycopg  # noqa: PLC0415 - an optional package

    server = connection.pgconn
    server.send_query(statement.encode())
    result = _result(server)
    if result is not None and result.status != psycopg.pq.ExecStatus.COPY_OUT:
        _result(server)
        raise psycopg.errors.error_from_result(result, encoding="utf-8")
    while True:
        # psycopg's own reading is not used, because it takes six times as long as libpq's.
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
    """Return the next result. Other threads are not blocked while it is awaited."""
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
    # select() is not used: it does not support descriptors above 1023, and a worker may have many descriptors.
    waiting = select.poll()
    waiting.register(server.socket, events)
    waiting.poll()


def _joined(rows: Iterator[bytes], block_bytes: int) -> Iterator[Messages]:
    block, starts = bytearray(), []
    for number, row in enumerate(rows):
        content = row[_FILE_HEADER:] if number == 0 and row.startswith(_SIGNATURE) else row
        message = struct.pack(">cI", b"d", len(content) + 4) + content
        if message == _TRAILER:
            continue
        starts.append(len(block))
        block += message
        if len(block) >= block_bytes:
            yield Messages(block, np.array(starts, np.int64), len(block))
            block, starts = bytearray(), []
    if starts:
        yield Messages(block, np.array(starts, np.int64), len(block))


class _Reader:
    """Reads the server's answer to one statement from the socket."""

    def __init__(self, own: socket.socket, block_bytes: int, marks: Marks) -> None:
        self._socket = own
        self._data = bytearray(max(block_bytes, 2 * _FILE_HEADER))
        self._filled = 0
        self._closed = False
        self._has_file_header = False
        self._finder = RowFinder(marks)

    def messages(self, statement: str) -> Iterator[Messages]:
        """Send the statement, and yield the rows until the server is ready for the next statement."""
        text = statement.encode() + b"\0"
        self._send(struct.pack(">cI", b"Q", len(text) + 4) + text)
        while True:
            starts, end = self._finder.find(self._data, self._filled)
            if len(starts):
                yield Messages(self._data, starts, end)
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
        """Wait for more data, until the block is nearly full or the server seems to have no more data."""
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
        """Whether the last bytes look like ReadyForQuery. If this is wrong, the only effect is a smaller block."""
        last = self._data[max(0, self._filled - HEADER - 1) : self._filled]
        return last[:HEADER] == b"Z\0\0\0\5" or self._data[0] == _ERROR

    def _skip_others(self, at: int) -> tuple[bool, int]:
        """Skip messages that are not rows. Return whether the server is ready, and where the next row may start.

        Raises the error that the server reports.
        """
        while self._filled - at >= HEADER:
            end = at + 1 + int.from_bytes(self._data[at + 1 : at + HEADER], "big")
            kind = self._data[at]
            if kind == _ROW and self._has_file_header:
                if self._filled - at < HEADER + _FILE_HEADER:
                    break
                at = self._skip_file_header(at, end)
                continue
            if end > self._filled or (kind == _ROW and self._data[at:end] != _TRAILER):
                break
            if kind == _ERROR:
                raise _reported(bytes(self._data[at + HEADER : end]))
            if kind == _READY:
                return True, end
            if kind == _COPY_OUT:
                self._has_file_header = bool(self._data[at + HEADER])
            at = end
        return False, at

    def _skip_file_header(self, at: int, end: int) -> int:
        """Move the start of the message past the header of the binary format, and return the new start.

        The message ends at `end`.
        """
        self._has_file_header = False
        at += _FILE_HEADER
        self._data[at : at + HEADER] = struct.pack(">cI", b"d", end - at - 1)
        return at


class RowFinder:
    """Finds rows by their marks. It reuses one array, because a new array of this size costs more than the search.

    All data is searched for the first mark's byte. The same search finds the other marks with this byte. Marks with
    other bytes are checked only at the positions that the search found. So the first mark's byte should be rare.
    """

    def __init__(self, marks: Marks = TEXT_MARKS) -> None:
        self._byte = marks[0][1]
        self._everywhere = [at for at, byte in marks if byte == self._byte]
        self._others = ((0, _ROW), *(mark for mark in marks if mark[1] != self._byte))
        self._reach = max(HEADER, *(at + 1 for at, _ in marks))
        # The size is not 8 or 16, because numpy treats these sizes specially and copies such parts at half the speed.
        self._window = self._reach + (self._reach & (self._reach - 1) == 0)
        self._found = np.empty(0, np.bool_)

    def find(self, data: bytearray, filled: int) -> tuple[Positions, int]:
        """Return where the complete rows in `data[:filled]` start, and where the last one ends."""
        starts, ends = self._candidates(data, filled)
        if len(starts) and starts[0] == 0 and (starts[1:] == ends[:-1]).all():
            if ends[-1] > filled or data[starts[-1] : ends[-1]] == _TRAILER:
                starts, ends = starts[:-1], ends[:-1]
            end = int(ends[-1]) if len(ends) else 0
            if _ends_there(data, filled, end):
                return starts, end
        return _walk(data, filled)

    def _candidates(self, data: bytearray, filled: int) -> tuple[Positions, Positions]:
        """Return the positions that have all marks, and the ends that messages at these positions would have."""
        count = filled - self._window + 1
        if count <= 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if len(self._found) < filled:
            self._found = np.empty(len(data), np.bool_)
        found = np.equal(np.frombuffer(data, np.uint8, filled), self._byte, out=self._found[:filled])
        first, *more = self._everywhere
        marked = found[first : first + count]
        for at in more:
            np.logical_and(marked, found[at : at + count], out=marked)
        starts = np.flatnonzero(marked)
        windows = np.ndarray((count,), f"V{self._window}", data, 0, (1,))[starts]
        columns = windows.view(np.uint8).reshape(-1, self._window)
        kept = np.logical_and.reduce([columns[:, at] == byte for at, byte in self._others])
        lengths = np.ascontiguousarray(columns[:, 1:HEADER]).view(">u4")[:, 0].astype(np.int64)
        return starts[kept], (starts + 1 + lengths)[kept]


def _ends_there(data: bytearray, filled: int, end: int) -> bool:
    """Return whether no complete row starts at `end`."""
    if filled - end < HEADER or data[end] != _ROW or data[end : end + len(_TRAILER)] == _TRAILER:
        return True
    return end + 1 + int.from_bytes(data[end + 1 : end + HEADER], "big") > filled


def _walk(data: bytearray, filled: int) -> tuple[Positions, int]:
    starts, at = [], 0
    while not _ends_there(data, filled, at):
        starts.append(at)
        at += 1 + int.from_bytes(data[at + 1 : at + HEADER], "big")
    return np.array(starts, np.int64), at


def _text(messages: Messages) -> pa.Buffer:
    """Return a copy of the rows without the headers of their messages."""
    starts, count = messages.starts, len(messages.starts)
    ends = np.append(starts[1:], messages.end)
    return (
        gathered(messages.data, starts + HEADER, ends)
        .buffers()[2]
        .slice(0, messages.end - int(starts[0]) - HEADER * count)
    )


def gathered(data: bytearray, starts: Positions, ends: Positions) -> pa.Array:
    """Return a `binary` array with copies of parts of a block. The parts are in ascending order and do not overlap.

    The block is treated as an array in which every second value is wanted.
    """
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = starts, ends, ends[-1]
    pieces = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pieces.take(pa.array(np.arange(0, 2 * len(starts), 2, dtype=np.int32)))


def _reported(fields: bytes) -> psycopg.Error:
    """Return the error in an ErrorResponse, whose fields are a letter and a zero-terminated text each."""
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
