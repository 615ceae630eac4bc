"""The last offsets of a batch, which its transaction commits."""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost import SourceRecord
from fencepost.runtime.task.batch_offsets import batch_offsets


def _records(*given: tuple[dict[str, Any], int]) -> list[SourceRecord]:
    return [SourceRecord(partition, {"n": number}, "t", value="v") for partition, number in given]


def test_equal_source_partitions_in_a_row_count_once():
    records = _records(({"p": "a"}, 1), ({"p": "a"}, 2), ({"p": "b"}, 3), ({"p": "b"}, 4))
    assert batch_offsets(records) == [({"p": "a"}, {"n": 2}), ({"p": "b"}, {"n": 4})]


def test_the_source_partition_of_the_last_record_is_the_last():
    first, second = {"p": "a"}, {"p": "b"}
    records = _records((first, 1), (second, 2), (first, 3))
    assert batch_offsets(records) == [(second, {"n": 2}), (first, {"n": 3})]


def test_an_equal_source_partition_after_another_comes_after_its_earlier_offset():
    """Equal source partitions are merged later by content, so the last offset must come last."""
    records = _records(({"p": "a"}, 1), ({"p": "b"}, 2), ({"p": "a"}, 3))
    assert [offset for _, offset in batch_offsets(records)] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_source_partitions_that_differ_in_json_are_kept_apart():
    """Python considers them equal."""
    records = _records(
        ({"p": 1}, 1), ({"p": True}, 2), ({"p": 1.0}, 3), ({"a": 1, "b": True}, 4), ({"b": 1, "a": True}, 5)
    )
    assert [offset["n"] for _, offset in batch_offsets(records)] == [1, 2, 3, 4, 5]


def test_source_partitions_that_cannot_be_compared_are_left_to_the_commit():
    records = _records(({"p": np.zeros(2)}, 1), ({"p": np.zeros(2)}, 2))
    assert [offset for _, offset in batch_offsets(records)] == [{"n": 1}, {"n": 2}]
