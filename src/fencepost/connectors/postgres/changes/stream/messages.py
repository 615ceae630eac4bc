"""Logical messages: the stream contains what `pg_logical_emit_message` writes to the log.

A transactional message is one of the changes in its transaction. Other messages are written to the log immediately,
whether the surrounding transaction commits or not, and the server sends them between transactions.

    M, flags (1: transactional), LSN (8 bytes), prefix, 0, length (4 bytes), content

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

WATERMARK: Final = "fencepost.watermark"
"""The prefix of messages that the connector itself writes. They are not captured."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message and its place in the log.

    Outside transactions, `number`, `commit_lsn`, `commit_us` and `xid` are None.
    """

    prefix: str
    content: bytes
    lsn: int
    number: int | None = None
    commit_lsn: int | None = None
    commit_us: int | None = None
    xid: int | None = None


def parse_message(data: bytes) -> tuple[str, bytes]:
    """Return prefix and content of a message of type M."""
    end = data.index(0, 10)
    (size,) = struct.unpack_from(">I", data, end + 1)
    return data[10:end].decode(), data[end + 5 : end + 5 + size]
