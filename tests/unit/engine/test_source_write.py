from __future__ import annotations

import pyarrow as pa
import pytest

from fencepost.engine.source_write import JOINED_BYTES, joined

_LARGE = JOINED_BYTES // 8


def batch(*values: int, name: str = "value") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values, pa.int64())})


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1], [1]),
        ([1] * 1_000, [1_000]),
        ([0, 3, 0], [3]),
        ([_LARGE, _LARGE], [_LARGE, _LARGE]),
        ([1, _LARGE, 1, 1], [_LARGE + 1, 2]),
        ([_LARGE // 2] * 5, [_LARGE, _LARGE, _LARGE // 2]),
    ],
)
def test_small_batches_are_joined_up_to_a_size(sizes: list[int], expected: list[int]) -> None:
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    given = [batch(*range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]

    found = list(joined(given))

    assert [part.num_rows for part in found] == expected
    assert [value for part in found for value in part["value"].to_pylist()] == list(range(sum(sizes)))


def test_batches_of_other_columns_are_not_joined() -> None:
    given = [batch(1), batch(2), batch(3, name="key"), batch(4)]
    assert [part.to_pydict() for part in joined(given)] == [{"value": [1, 2]}, {"key": [3]}, {"value": [4]}]


def test_a_large_batch_is_not_copied_and_waits_for_no_other() -> None:
    large = batch(*range(_LARGE))

    def endless() -> object:
        yield large
        raise AssertionError("another batch is read before the large one is handed on")

    assert next(joined(endless())) is large  # type: ignore[arg-type]
