"""Finds the messages of a replication stream in a block of bytes, without a step for each message.

The stream is a sequence of CopyData messages: `d`, length (4 bytes), payload; a payload is `w` (XLogData: three 8-byte
numbers, then a message of pgoutput) or `k` (keepalive). Each `d` followed by a plausible length and `w` or `k` is a
candidate. If every candidate ends where the next one begins, the candidates are exactly the messages: the first begins
at 0, and the others follow by induction. If a candidate does not end there, because row data looks like a message, the
block is searched message by message. The same happens if there is a notice, a changed setting or a notification between
the messages. The server may send these at any time; they are skipped.

https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fencepost.api.errors import FencepostError, RetriableError
from fencepost.connectors.postgres.changes.connection import PostgresError
from fencepost.connectors.postgres.changes.slot.slot import RESYNC

COPY_DATA: Final = ord("d")
XLOG_DATA: Final = ord("w")
KEEPALIVE: Final = ord("k")
_BEGIN, _COMMIT = b"BC"
_ANY_TIME: Final = b"NSA"
"""NoticeResponse, ParameterStatus and NotificationResponse."""

_UNSENDABLE: Final = ("22", "54")
"""SQLSTATE classes of errors that a change itself causes, through its data or through a limit of the server.

The log still contains such a change, so a later attempt fails again.
"""

PAYLOAD: Final = 5
"""The position of the payload in a CopyData message, after `d` and the length."""

MESSAGE: Final = 30
"""The position of pgoutput's message, after CopyData's header, `w`, and the server's positions and time."""

Positions = NDArray[np.int64]


def find_frames(data: bytearray, filled: int) -> tuple[Positions, int]:
    """Return where the complete messages in `data[:filled]` start, and where the last one ends.

    If another kind of message follows, the server has ended the stream. This raises RetriableError or PostgresError
    with the server's message.
    """
    u8 = np.frombuffer(data, np.uint8, filled)
    starts = np.flatnonzero(u8[: max(filled - PAYLOAD, 0)] == COPY_DATA)
    kinds = u8[starts + PAYLOAD]
    # Messages of 16 MiB and more are not candidates; the slow search finds them.
    starts = starts[((kinds == XLOG_DATA) | (kinds == KEEPALIVE)) & (u8[starts + 1] == 0)]
    if not len(starts) or starts[0] != 0:
        return _walk(data, filled)
    sizes = np.ndarray((filled - 3,), ">u4", data, 0, (1,))[starts + 1].astype(np.int64)
    ends = starts + 1 + sizes
    if not (starts[1:] == ends[:-1]).all():
        return _walk(data, filled)
    if ends[-1] > filled:
        starts, ends = starts[:-1], ends[:-1]
    end = int(ends[-1]) if len(starts) else 0
    # The remaining bytes must begin with a candidate: otherwise one of the candidates was not a message.
    if filled - end > PAYLOAD and not _is_candidate(data, end):
        return _walk(data, filled)
    return starts, end


def whole_transactions(data: bytearray, starts: Positions, end: int, *, full: bool) -> tuple[Positions, int]:
    """Return the messages before the transaction that does not end in the block, and where that transaction starts.

    If the block starts with such a transaction, no messages are returned, so that more of the transaction can be read.
    But if the block is `full`, all messages are returned.
    """
    u8 = np.frombuffer(data, np.uint8)
    live = u8[starts + PAYLOAD] == XLOG_DATA
    tags = np.where(live, u8[np.minimum(starts + MESSAGE, len(u8) - 1)], 0)
    commits = starts[tags == _COMMIT]
    begins = starts[tags == _BEGIN]
    unfinished = begins[begins > commits[-1]] if len(commits) else begins
    if not len(unfinished):
        return starts, end
    cut = int(unfinished[0])
    if cut == 0 and full:
        return starts, end
    return starts[starts < cut], cut


def _is_candidate(data: bytearray, at: int) -> bool:
    return data[at] == COPY_DATA and data[at + 1] == 0 and data[at + PAYLOAD] in (XLOG_DATA, KEEPALIVE)


def _walk(data: bytearray, filled: int) -> tuple[Positions, int]:
    starts, at = [], 0
    while at + PAYLOAD <= filled:
        if data[at] != COPY_DATA and data[at] not in _ANY_TIME:
            raise ended(server_message(data[at:filled]), _fields(data[at:filled]).get(b"C", ""))
        end = at + 1 + int.from_bytes(data[at + 1 : at + PAYLOAD], "big")
        if end > filled:
            break
        if data[at] == COPY_DATA:
            starts.append(at)
        at = end
    return np.array(starts, np.int64), at


def ended(said: str, state: str) -> FencepostError:
    """Return the error for a stream that the server ended with this message and SQLSTATE."""
    message = f"PostgreSQL ended the replication stream: {said}"
    if not state.startswith(_UNSENDABLE):
        return RetriableError(message)
    return PostgresError(
        f"{message}. The server cannot send this change, and retrying will not help: correct the value in the database, or "
        f"leave the table out of the publication. {RESYNC}"
    )


def server_message(answer: bytes | bytearray) -> str:
    """Return the text of an ErrorResponse: severity, message and context. The response may be incomplete."""
    if answer[:1] != b"E":
        return f"it sent a message of type {bytes(answer[:1])!r}"
    fields = _fields(answer)
    said = ": ".join(fields[kind] for kind in (b"V", b"M") if kind in fields)
    context = f" ({fields[b'W']})" if b"W" in fields else ""
    return f"{said or 'it sent an error without text'}{context}"


def _fields(answer: bytes | bytearray) -> dict[bytes, str]:
    """Return the fields of an ErrorResponse by their type. The last field may be incomplete."""
    end = 1 + int.from_bytes(answer[1:PAYLOAD], "big")
    parts = bytes(answer[PAYLOAD:end]).split(b"\0")
    return {part[:1]: part[1:].decode(errors="replace") for part in parts if part}
