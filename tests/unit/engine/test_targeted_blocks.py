"""Blocks of records, in which a shuffle moves them to their writer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from kafka.record.memory_records import MemoryRecords

from fencepost.engine.conversion import Converted
from fencepost.engine.routing import Routed
from fencepost.engine.targeted_blocks import BLOCK_BYTES, TARGETED, targeted_blocks, targeted_records
from fencepost.kafka.records.columns import HEADERS, Records
from fencepost.kafka.records.compression import Compression
from fencepost.kafka.records.record_batch import encode


def converted(records: Records) -> Converted:
    return Converted("t", records)


def rows_of(records: Records) -> list[tuple[object, ...]]:
    encoded = encode(
        records,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        compression=Compression.NONE,
        now_ms=0,
    )
    return [(r.key, r.value, r.timestamp, r.headers) for r in MemoryRecords(b"".join(encoded)).next_batch()]


def shuffled(batches: list[pa.RecordBatch], writer: int, *, large: bool = False) -> list[Routed]:
    """The blocks that a writer gets, with the types that Spark returns."""
    rows = pa.Table.from_batches(batches).filter(pa.compute.field("writer") == writer).combine_chunks()
    text, data = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    kinds = [pa.int32(), text, data, text]
    (batch,) = rows.cast(pa.schema(zip(TARGETED.names, kinds, strict=True))).to_batches()
    return list(targeted_records(batch))


@pytest.mark.parametrize("large", [False, True], ids=["32-bit offsets", "64-bit offsets"])
def test_shuffled_records_equal_their_rows_with_any_offset_width_of_spark(*, large: bool) -> None:
    records = Records(
        value=pa.array([b"one", b"two", None], pa.binary()),
        key=pa.array([b"k", None, b"l"], pa.binary()),
        timestamp=pa.array([1, 2, 3], pa.int64()),
        headers=pa.array([[("name", b"v1"), ("more", b"v2")], [("name", b"v3")], None], HEADERS),
    )

    (found,) = shuffled(list(targeted_blocks(converted(records), np.array([1, 1, 1]), 1)), 0, large=large)

    assert (found.topic, found.partition) == ("t", 1)
    assert rows_of(found.records) == [
        (b"k", b"one", 1, [("name", b"v1"), ("more", b"v2")]),
        (None, b"two", 2, [("name", b"v3")]),
        (b"l", None, 3, []),
    ]


def test_each_partition_has_its_records_in_order_at_its_one_writer() -> None:
    values = [str(number).encode().rjust(100) for number in range(5_000)]
    targets = np.random.default_rng(7).integers(0, 16, len(values)).astype(np.int32)

    batches = list(targeted_blocks(converted(Records(value=pa.array(values, pa.binary()))), targets, 4))

    found = [routed for writer in range(4) for routed in shuffled(batches, writer)]
    assert sorted(routed.partition for routed in found) == list(range(16))
    for routed in found:
        expected = [value for value, target in zip(values, targets, strict=True) if target == routed.partition]
        assert routed.records.value.to_pylist() == expected


def test_blocks_are_small_whatever_the_size_of_records() -> None:
    for size in (10, 1_000, 100_000):
        records = Records(value=pa.array([b"x" * size] * 200, pa.binary()))

        (batch,) = targeted_blocks(converted(records), np.zeros(200, np.int32), 1)

        assert max(map(len, batch["records"].to_pylist())) < BLOCK_BYTES + size + 2_000
        assert batch.num_rows == (200 if size > BLOCK_BYTES else pytest.approx(200 * size / BLOCK_BYTES, abs=4))


def test_blocks_of_many_bytes_come_in_several_batches() -> None:
    records = Records(value=pa.array([b"x" * 2**20] * 100, pa.binary()))

    batches = list(targeted_blocks(converted(records), np.zeros(100, np.int32), 1))

    assert len(batches) > 1
    assert sum(batch.num_rows for batch in batches) == 100
