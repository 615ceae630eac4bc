"""Writes Parquet, ORC and Avro files with several row groups, stripes or blocks."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import orc, parquet

SCHEMA = {
    "type": "record", "name": "Row",
    "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": ["null", "string"]}],
}  # fmt: skip


def parquet_file(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), sink, row_group_size=700)
    return sink.getvalue()


def orc_file(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(rows), sink, stripe_size=1 << 13, batch_size=100)
    return sink.getvalue()


def avro_file(rows: list[dict[str, Any]], schema: Any = SCHEMA, codec: str = "null") -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, schema, rows, codec=codec, sync_interval=5_000)
    return sink.getvalue()


WRITE: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "parquet": parquet_file,
    "orc": orc_file,
    "avro": avro_file,
}
