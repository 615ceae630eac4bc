"""Records that a shuffle brought to their writer, in the types in which Spark gives them back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from kafka.record.memory_records import MemoryRecords

from fencepost.engine.write_stage import targeted_records
from fencepost.kafka.records.compression import Compression
from fencepost.kafka.records.record_batch import encode


@pytest.mark.parametrize("large", [False, True], ids=["32-bit offsets", "64-bit offsets"])
def test_shuffled_records_equal_their_rows_with_any_offset_width_of_spark(*, large: bool):
    text, data = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    pairs = pa.struct([("key", text), ("value", data)])
    batch = pa.record_batch(
        {
            "topic": pa.array(["t", "t"], text),
            "partition": pa.array([1, 1], pa.int32()),
            "key": pa.array([b"k", None], data),
            "value": pa.array([b"one", b"two"], data),
            "timestamp": pa.array([1, 2], pa.int64()),
            "headers": pa.array([[("name", b"v1"), ("more", b"v2")], [("name", b"v3")]], pa.list_(pairs)),
        }
    )

    (found,) = targeted_records(batch)

    assert (found.topic, found.partition) == ("t", 1)
    encoded = encode(
        found.records,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        compression=Compression.NONE,
        now_ms=0,
    )
    assert [(r.key, r.value, r.timestamp, r.headers) for r in MemoryRecords(b"".join(encoded)).next_batch()] == [
        (b"k", b"one", 1, [("name", b"v1"), ("more", b"v2")]),
        (None, b"two", 2, [("name", b"v3")]),
    ]
