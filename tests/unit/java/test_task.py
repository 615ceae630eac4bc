"""How long a Java task waits for records, and the metadata of written records, which are sent to the JVM in runs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fencepost.config.connector_config import TransactionBoundary
from fencepost.config.ids import ConnectorTaskId
from fencepost.java.task import JavaTaskSetting, _written


def places(*rows: tuple[str, int, int, int] | None) -> pa.RecordBatch:
    """Partitions and offsets of records, None for a dropped record."""
    names = ("topic", "partition", "offset", "timestamp")
    kinds = (pa.string(), pa.int32(), pa.int64(), pa.int64())
    columns = zip(*(row or (None,) * 4 for row in rows), strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names
    )


def unrolled(written: dict[str, list[int]], topics: list[str]) -> list[tuple[str, int, int, int] | None]:
    found: list[tuple[str, int, int, int] | None] = []
    for count, topic, partition, offset, timestamp in zip(
        *(written[name] for name in ("count", "topic", "partition", "offset", "timestamp")), strict=True
    ):
        found += [None if topic < 0 else (topics[topic], partition, offset + n, timestamp) for n in range(count)]
    return found


def test_nothing_is_sent_to_the_jvm_without_record_positions():
    assert _written([]) == {}


def test_consecutive_offsets_are_one_run_over_all_batches():
    first, second = (places(*(("t", 2, offset, 7) for offset in range(start, start + 5))) for start in (0, 5))
    assert _written([first, second]) == {
        "written": {"topics": ["t"], "count": [10], "topic": [0], "partition": [2], "offset": [0], "timestamp": [7]}
    }


def test_a_run_ends_where_anything_changes():
    rows = [
        ("t", 0, 5, 1), ("t", 0, 6, 1), ("t", 1, 7, 1), ("u", 1, 8, 1), ("u", 1, 9, 2), ("u", 1, 11, 2),
        None, None, ("u", 1, 12, 2), ("u", 1, -1, 2), ("u", 1, -1, 2), None, ("t", 0, 0, 3),
    ]  # fmt: skip
    written = _written([places(*rows[:4]), places(*rows[4:])])["written"]
    assert written["count"] == [2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1]
    assert unrolled(written, written["topics"]) == rows


@pytest.mark.parametrize("boundary", TransactionBoundary)
def test_tasks_wait_for_shorter_times_if_an_interval_ends_transactions(boundary: TransactionBoundary):
    waits_ms = JavaTaskSetting(ConnectorTaskId("lines", 0), boundary, {}).wait_ms
    assert waits_ms == (100 if boundary is TransactionBoundary.INTERVAL else 1_000)
