"""A replication stream, read in blocks.

libpq connects and authenticates. After that, the messages of the stream are read from libpq's socket directly, because
libpq returns one message per call. A block has up to 4 MiB, because each block costs some milliseconds, whatever its
size. On a TLS connection only libpq can decrypt, so its calls are used, and the block is assembled from their results.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fencepost.api.errors import FencepostError, RetriableError
from fencepost.connectors.postgres.changes.connection import ConnectionSettings, PostgresError, driver_error
from fencepost.connectors.postgres.changes.position import Position
from fencepost.connectors.postgres.changes.stream.decoder import EPOCH_US, Decoded, Decoder
from fencepost.connectors.postgres.changes.stream.replication_frames import (
    ended,
    find_frames,
    server_message,
    whole_transactions,
)
from fencepost.connectors.postgres.server.lsn import lsn_text
from fencepost.connectors.postgres.server.quoting import quoted

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

BLOCK_BYTES: Final = 1 << 22
# Additional bytes after the end of a block, because numbers are read as 8 bytes at any position.
_SLACK: Final = 64
# The walsender writes 8 KiB at a time. Waking up for each such part would cost more than decoding it. After a full
# block there is a backlog, so waiting for more costs nothing; after a small block, waiting would add latency.
_LOW_WATER: Final = 1 << 17
_LINGER_S: Final = 0.06
_SHORT_LINGER_S: Final = 0.001
_BACKLOG_BYTES: Final = 1 << 18
# If a block is filled to this share and no transaction ends in it, a part of the transaction is decoded.
_FULL: Final = 0.75
# The server ends a connection that is silent for wal_sender_timeout, by default one minute.
_REPLY_S: Final = 10.0
# The maximum time until the server starts streaming: it loads the slot first.
_ANSWER_S: Final = 60.0
# pgoutput supports logical messages since version 14.
_WITH_MESSAGES: Final = 140_000
# Classes of SQLSTATE after which a start is retried: connection, resources, operator intervention. 55006: the slot is
# in use by an earlier task whose disconnection the server has not noticed yet. 42704 and 55000: the slot was just
# dropped or invalidated; the checks before the next attempt report that with advice.
_TEMPORARY: Final = ("08", "53", "57", "55006", "42704", "55000")


class ReplicationStream:
    """The changes of a slot, starting at a position. Only one thread may use it."""

    def __init__(
        self, settings: ConnectionSettings, slot: str, publication: str, decoder: Decoder, committed: Position
    ) -> None:
        """Start streaming from the decoder's position. `committed` is confirmed to the server, and may be earlier.

        Raises RetriableError (also while another connection uses the slot) or PostgresError.
        """
        self._decoder = decoder
        self._confirmed = committed.lsn
        self._data = bytearray(BLOCK_BYTES + _SLACK)
        self._filled = self._last_read = 0
        self._next_reply = 0.0
        self._session = settings.connect_for_replication()
        self._connection = self._session.pgconn
        try:
            self._socket = self._start(slot, publication, decoder.position)
        except BaseException:
            self._session.close()
            raise

    def read(self, timeout_s: float) -> Decoded:
        """Wait for changes, and return a block of them: whole transactions, if at least one ends in the block.

        Raises RetriableError if the connection breaks; reading can then continue at the decoder's position. Raises
        PostgresError if the server cannot send a change.
        """
        self._fill(timeout_s)
        if time.monotonic() >= self._next_reply:
            self._reply()
        starts, end = find_frames(self._data, self._filled)
        if not end and self._filled == len(self._data) - _SLACK:
            # One message is larger than the block.
            self._data = self._data[:-_SLACK] + bytearray(len(self._data))
        starts, end = whole_transactions(self._data, starts, end, full=self._filled > BLOCK_BYTES * _FULL)
        if not end:
            return Decoded()
        decoded = self._decoder.decode(self._data, starts)
        # The decoded arrays are copies; the next read starts with the rest of the block.
        self._data[: self._filled - end] = bytes(self._data[end : self._filled])
        self._filled -= end
        if decoded.reply:
            self._reply()
        return decoded

    @property
    def backlog(self) -> bool:
        """Whether the last read found so much data that more data are probably waiting."""
        return self._last_read > _BACKLOG_BYTES

    def confirm(self, position: Position) -> None:
        """Report to the server that all changes up to a position are committed in Kafka. Raises RetriableError."""
        if position.lsn > self._confirmed:
            self._confirmed = position.lsn
            self._reply()

    def ping(self) -> None:
        """Ask the server how far it has read its log; the answer comes with the changes. Raises RetriableError."""
        self._reply(wants_answer=True)

    def close(self) -> None:
        """End the stream."""
        if self._socket is not None:
            self._socket.close()
        self._session.close()

    def _start(self, slot: str, publication: str, position: Position) -> socket.socket | None:
        """Send the start command. Return the socket to read from, None if libpq must read."""
        messages = ", messages 'true'" if self._session.info.server_version >= _WITH_MESSAGES else ""
        named = quoted(publication).replace("'", "''")
        wanted = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(position.lsn)} '
            f"(proto_version '1', publication_names '{named}'{messages})"
        )
        if self._connection.ssl_in_use:
            _start_by_libpq(self._connection, wanted)
            return None
        own = socket.socket(fileno=os.dup(self._connection.socket))
        try:
            own.settimeout(_ANSWER_S)
            _start_raw(own, wanted)
            own.setblocking(True)
        except BaseException:
            own.close()
            raise
        return own

    def _fill(self, timeout_s: float) -> None:
        before = self._filled
        if self._socket is None:
            with _broken_is_retriable():
                self._fill_by_libpq(timeout_s)
        else:
            try:
                self._fill_raw(self._socket, timeout_s)
            except OSError as error:
                raise RetriableError(f"The connection to PostgreSQL broke: {error}") from error
        self._last_read = self._filled - before

    def _fill_raw(self, own: socket.socket, timeout_s: float) -> None:
        limit, before = len(self._data) - _SLACK, self._filled
        view = memoryview(self._data)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        if not _readable(own.fileno(), timeout_s):
            return
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _LOW_WATER)
        deadline = time.monotonic() + (_LINGER_S if self.backlog else _SHORT_LINGER_S)
        while self._filled < limit:
            _readable(own.fileno(), deadline - time.monotonic())
            try:
                count = own.recv_into(view[self._filled : limit], 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if not count:
                if self._filled > before:
                    return
                # Bytes of earlier reads may be left, but they are an incomplete message.
                raise RetriableError("PostgreSQL closed the replication connection")
            self._filled += count
            if time.monotonic() >= deadline:
                return

    def _fill_by_libpq(self, timeout_s: float) -> None:
        connection, wait = self._connection, timeout_s
        while self._filled < BLOCK_BYTES:
            size, message = connection.get_copy_data(1)
            if size < 0:
                raise _ended_by_libpq(connection)
            if size == 0:
                if not _readable(connection.socket, wait):
                    return
                connection.consume_input()
                wait = _SHORT_LINGER_S
                continue
            framed = struct.pack(">cI", b"d", size + 4) + bytes(message)
            end = self._filled + len(framed)
            if (missing := end + _SLACK - len(self._data)) > 0:
                self._data += bytearray(missing)
            self._data[self._filled : end] = framed
            self._filled = end

    def _reply(self, *, wants_answer: bool = False) -> None:
        self._next_reply = time.monotonic() + _REPLY_S
        now = int(time.time() * 1_000_000) - EPOCH_US
        received = max(self._decoder.position.lsn, self._confirmed)
        status = struct.pack(">cQQQq?", b"r", received, self._confirmed, self._confirmed, now, wants_answer)
        try:
            if self._socket is None:
                self._connection.put_copy_data(status)
                self._connection.flush()
            else:
                self._socket.sendall(struct.pack(">cI", b"d", len(status) + 4) + status)
        except Exception as error:
            raise RetriableError(f"The connection to PostgreSQL broke: {error}") from error


def _readable(descriptor: int, timeout_s: float) -> bool:
    # select() is not used, because it does not support descriptors above 1023.
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(max(0.0, timeout_s) * 1000))


def _start_raw(own: socket.socket, wanted: str) -> None:
    try:
        own.sendall(b"Q" + struct.pack(">I", len(wanted.encode()) + 5) + wanted.encode() + b"\0")
        # Notices and changed settings may come before the answer.
        while True:
            kind, size = struct.unpack(">cI", _exactly(own, 5))
            body = _exactly(own, size - 4)
            if kind == b"W":
                return
            if kind == b"E":
                raise _start_failed(kind + struct.pack(">I", size) + body)
    except OSError as error:
        raise RetriableError(f"The connection to PostgreSQL broke: {error}") from error


def _start_failed(answer: bytes) -> FencepostError:
    fields = {part[:1]: part[1:] for part in answer[5:].split(b"\0") if part}
    state = fields.get(b"C", b"08000").decode()
    said = f"PostgreSQL did not start the replication: {server_message(answer)}"
    return RetriableError(said) if state.startswith(_TEMPORARY) else PostgresError(said)


def _start_by_libpq(connection: PGconn, wanted: str) -> None:
    from psycopg import pq  # noqa: PLC0415 - an optional package

    with _broken_is_retriable():
        connection.send_query(wanted.encode())
        connection.flush()
        # PGconn.get_result is not used, because it blocks all threads of the process until the server answers.
        while connection.is_busy():
            if _readable(connection.socket, _ANSWER_S):
                connection.consume_input()
            else:
                raise RetriableError(f"PostgreSQL did not start the replication within {_ANSWER_S:.0f} s")
        result = connection.get_result()
    if result is None or result.status != pq.ExecStatus.COPY_BOTH:
        state = (None if result is None else result.error_field(pq.DiagnosticField.SQLSTATE)) or b"08000"
        message = connection.error_message.decode(errors="replace").strip()
        said = f"PostgreSQL did not start the replication: {message}"
        raise RetriableError(said) if state.decode().startswith(_TEMPORARY) else PostgresError(said)
    connection.nonblocking = 1


def _ended_by_libpq(connection: PGconn) -> FencepostError:
    from psycopg import pq  # noqa: PLC0415 - an optional package

    # This does not block: the answer has arrived, or the connection is broken.
    result = connection.get_result()
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) if result else None) or b""
    reason = " ".join(connection.error_message.decode(errors="replace").split())
    return ended(reason or "no reason given", state.decode())


@contextmanager
def _broken_is_retriable() -> Iterator[None]:
    """Raise RetriableError, with libpq's message, if the connection breaks."""
    try:
        yield
    except driver_error() as error:
        raise RetriableError(f"The connection to PostgreSQL broke: {error}") from error


def _exactly(own: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = own.recv(count - len(parts))
        if not part:
            raise RetriableError("PostgreSQL closed the connection for replication")
        parts += part
    return parts
