"""Writes messages of pgoutput as a server would, for the decoder's tests."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from fencepost.connectors.postgres.changes.stream.decoder import EPOCH_US
from fencepost.connectors.postgres.changes.stream.relation import Column, Relation, ReplicaIdentity

UNCHANGED = object()
"""An unchanged TOASTed value, which the server does not send."""

Row = Sequence[str | object | None]

ACCOUNTS = Relation(
    1001,
    "public",
    "accounts",
    ReplicaIdentity.DEFAULT,
    (
        Column("id", 23, -1, identity=True),
        Column("owner", 25, -1, identity=False),
        Column("note", 25, -1, identity=False),
    ),
)
HISTORY = Relation(1002, "public", "history", ReplicaIdentity.DEFAULT, (Column("hid", 20, -1, identity=True),))


def frame(payload: bytes) -> bytes:
    return b"d" + struct.pack(">I", len(payload) + 4) + payload


def logged(message: bytes, lsn: int = 0) -> bytes:
    return frame(b"w" + struct.pack(">QQq", lsn, lsn, 0) + message)


def keepalive(end: int, *, reply: bool = False) -> bytes:
    return frame(b"k" + struct.pack(">Qq?", end, 0, reply))


def begin(commit_lsn: int, *, xid: int = 7, commit_us: int = EPOCH_US) -> bytes:
    return logged(b"B" + struct.pack(">QqI", commit_lsn, commit_us - EPOCH_US, xid))


def commit(commit_lsn: int, end: int) -> bytes:
    return logged(b"C\0" + struct.pack(">QQq", commit_lsn, end, 0))


def relation(described: Relation) -> bytes:
    body = (
        b"R" + struct.pack(">I", described.oid) + described.schema.encode() + b"\0" + described.table.encode() + b"\0"
    )
    body += described.identity.encode() + struct.pack(">H", len(described.columns))
    for column in described.columns:
        body += (
            bytes([column.identity])
            + column.name.encode()
            + b"\0"
            + struct.pack(">Ii", column.type_oid, column.modifier)
        )
    return logged(body)


def type_name(oid: int, schema: str, name: str) -> bytes:
    return logged(b"Y" + struct.pack(">I", oid) + schema.encode() + b"\0" + name.encode() + b"\0")


def insert(table: Relation, row: Row, *, lsn: int = 0) -> bytes:
    return logged(b"I" + struct.pack(">I", table.oid) + b"N" + values(row), lsn)


def update(table: Relation, row: Row, *, old: Row | None = None, full: bool = False) -> bytes:
    before = b"" if old is None else (b"O" if full else b"K") + values(old)
    return logged(b"U" + struct.pack(">I", table.oid) + before + b"N" + values(row))


def delete(table: Relation, old: Row, *, full: bool = False) -> bytes:
    return logged(b"D" + struct.pack(">I", table.oid) + (b"O" if full else b"K") + values(old))


def message(prefix: str, content: bytes, *, lsn: int, transactional: bool) -> bytes:
    head = b"M" + struct.pack(">BQ", transactional, lsn)
    return logged(head + prefix.encode() + b"\0" + struct.pack(">I", len(content)) + content, lsn)


def truncate(*tables: Relation) -> bytes:
    return logged(b"T" + struct.pack(">IB", len(tables), 0) + b"".join(struct.pack(">I", t.oid) for t in tables))


def values(row: Row) -> bytes:
    body = struct.pack(">H", len(row))
    for value in row:
        if value is None:
            body += b"n"
        elif value is UNCHANGED:
            body += b"u"
        else:
            text = str(value).encode()
            body += b"t" + struct.pack(">I", len(text)) + text
    return body


def buffer(*messages: bytes) -> bytearray:
    """A block as the stream has it: with free bytes behind the messages."""
    return bytearray(b"".join(messages) + bytes(64))
