"""Blocks of converted records. In blocks, records cross a shuffle to the writer of their topic partition.

    records of a batch ──split by writer──> blocks of about BLOCK_BYTES ──shuffle, sort──> split by topic partition

Spark moves rows, and converts each column of each row from Arrow's form to its own and back. With one row for each
record, a shuffled record was ten times as expensive as another record. So a row is a block: records of one topic for
one writer, with their partitions, as a message of Arrow's IPC format without its schema, which is always the same
(https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc).

Blocks are small: Spark passes up to 10,000 rows (by default) to Python at a time, and not all versions of Spark limit
their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from fencepost.engine.conversion import Converted
from fencepost.engine.routing import Routed, split, writer_of
from fencepost.kafka.records.columns import HEADERS, Records

TARGETED: Final = pa.schema(
    [("writer", pa.int32()), ("topic", pa.string()), ("records", pa.binary()), ("message", pa.string())]
)
"""The columns of the rows in the shuffle, see `write_stage.TARGETED_SCHEMA`."""

BLOCK_BYTES: Final = 16 * 1024
"""The size of blocks in bytes, estimated by the average size of records. A block has at least one record."""

_BATCH_BYTES: Final = 64 * 1024 * 1024
"""Blocks are yielded together up to this number of bytes, because offsets in a Spark column have 32 bits."""

_RECORDS: Final = pa.schema(
    [
        ("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()),
        ("headers", HEADERS),
    ]
)  # fmt: skip

_Row = tuple[int, str, bytes, None]


def targeted_blocks(converted: Converted, targets: np.ndarray, writers: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the shuffle for converted records. `targets` are the records' partitions.

    The records for one writer keep their order: within each block, and from block to block.
    """
    rows: list[_Row] = []
    size = 0
    for owned in split(converted.topic, converted.records, writer_of(converted.topic, targets, writers)):
        for block in _blocks(owned.records, targets if owned.rows is None else targets[owned.rows]):
            if rows and size + len(block) > _BATCH_BYTES:
                yield _rows(rows)
                rows, size = [], 0
            rows.append((owned.partition, converted.topic, block, None))
            size += len(block)
    if rows:
        yield _rows(rows)


def targeted_records(batch: pa.RecordBatch) -> Iterator[Routed]:
    """Return the records in the blocks of rows from the shuffle, by topic partition, in their order."""
    by_topic: dict[str, list[pa.RecordBatch]] = {}
    for topic, block in zip(batch["topic"].to_pylist(), batch["records"].to_pylist(), strict=True):
        read = pa.ipc.read_record_batch(pa.py_buffer(block), _RECORDS)
        by_topic.setdefault(topic, []).append(read)
    for topic, blocks in by_topic.items():
        targets = np.concatenate([block["partition"].to_numpy() for block in blocks])
        yield from split(topic, Records.concat([_records(block) for block in blocks]), targets)


def _blocks(records: Records, targets: np.ndarray) -> Iterator[bytes]:
    count = len(records)
    columns = [
        pa.array(targets, pa.int32()),
        pa.nulls(count, pa.binary()) if records.key is None else records.key.cast(pa.binary()),
        records.value.cast(pa.binary()),
        pa.nulls(count, pa.int64()) if records.timestamp is None else records.timestamp,
        pa.nulls(count, HEADERS) if records.headers is None else records.headers,
    ]
    whole = pa.RecordBatch.from_arrays(columns, schema=_RECORDS)
    step = max(1, BLOCK_BYTES * count // whole.nbytes)
    for start in range(0, count, step):
        yield whole.slice(start, step).serialize().to_pybytes()


def _records(block: pa.RecordBatch) -> Records:
    return Records(value=block["value"], key=block["key"], timestamp=block["timestamp"], headers=block["headers"])


def _rows(rows: list[_Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, TARGETED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=TARGETED)
