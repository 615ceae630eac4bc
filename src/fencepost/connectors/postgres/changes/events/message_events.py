"""Events for logical messages, in Debezium's form: `op` is m, and the content is bytes.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-message-events
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from fencepost.api.record import SourceBatch
from fencepost.connectors.postgres.changes.events.batches import ready
from fencepost.connectors.postgres.changes.events.envelope import SOURCE_DDL, TRANSACTION_DDL, EnvelopeSettings
from fencepost.connectors.postgres.changes.stream.messages import Message
from fencepost.version import __version__

_DDL: Final = (
    f"topic STRING, key STRUCT<prefix: STRING NOT NULL>, value STRUCT<source: {SOURCE_DDL} NOT NULL, op: STRING NOT NULL, "
    f"ts_ms: BIGINT, transaction: {TRANSACTION_DDL}, message: STRUCT<prefix: STRING NOT NULL, content: BINARY>>"
)
_T, _N = pa.string(), pa.int64()
_SOURCE: Final = pa.struct([
    ("version", _T), ("connector", _T), ("name", _T), ("ts_ms", _N), ("snapshot", _T), ("db", _T), ("sequence", _T),
    ("ts_us", _N), ("ts_ns", _N), ("schema", _T), ("table", _T), ("txId", _N), ("lsn", _N), ("xmin", _N),
])  # fmt: skip
_TRANSACTION: Final = pa.struct([("id", _T), ("total_order", _N), ("data_collection_order", _N)])
_SCHEMA: Final = pa.schema([
    ("topic", _T),
    ("key", pa.struct([("prefix", _T)])),
    ("value", pa.struct([
        ("source", _SOURCE), ("op", _T), ("ts_ms", _N), ("transaction", _TRANSACTION),
        ("message", pa.struct([("prefix", _T), ("content", pa.binary())])),
    ])),
])  # fmt: skip


def message_batch(settings: EnvelopeSettings, messages: Sequence[Message], now_ms: int) -> SourceBatch:
    """Return the events of messages, for the topic PREFIX.message."""
    rows = [_row(settings, message, now_ms) for message in messages]
    return ready(_DDL, [pa.RecordBatch.from_pylist(rows, _SCHEMA)])


def _row(settings: EnvelopeSettings, message: Message, now_ms: int) -> dict[str, Any]:
    us = now_ms * 1000 if message.commit_us is None else message.commit_us
    inside = message.commit_lsn is not None
    source = {
        "version": __version__,
        "connector": "postgresql",
        "name": settings.prefix,
        "ts_ms": us // 1000,
        "snapshot": "false",
        "db": settings.database,
        "sequence": f'["{message.commit_lsn}","{message.number}"]' if inside else None,
        "ts_us": us,
        "ts_ns": us * 1000,
        "schema": "",
        "table": "",
        "txId": message.xid,
        "lsn": message.lsn,
    }
    return {
        "topic": f"{settings.prefix}.message",
        "key": {"prefix": message.prefix},
        "value": {
            "source": source,
            "op": "m",
            "ts_ms": now_ms,
            "message": {"prefix": message.prefix, "content": message.content},
        },
    }
