from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fencepost.api.errors import DataError
from fencepost.converters.columnar.values import check_text, counts_of, kept_items, numbers_of, whole_numbers, widened
from fencepost.converters.render import UnsupportedTypeError


def test_bytes_that_are_not_utf8_are_refused() -> None:
    check_text(pa.array(["ä", None]))
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"], pa.binary()).buffers())
    with pytest.raises(DataError, match="not UTF-8"):
        check_text(broken)


def test_items_of_lists_that_are_not_there_are_left_out() -> None:
    offsets = np.array([0, 2, 3, 5])
    counts, kept = counts_of(offsets, np.array([True, False, True]))
    assert counts.tolist() == [2, 0, 2]
    assert kept_items(pa.array([1, 2, 3, 4, 5]), kept).to_pylist() == [1, 2, 4, 5]
    counts, kept = counts_of(offsets, None)
    assert counts.tolist() == [2, 1, 2]
    assert kept_items(pa.array([1, 2, 3, 4, 5]), kept).to_pylist() == [1, 2, 3, 4, 5]


def test_nulls_become_zero_in_arrays_of_numbers() -> None:
    assert numbers_of(pa.array([1, None, 3], pa.int16())).tolist() == [1, 0, 3]
    assert numbers_of(pa.array([True, None])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "per_second", "expected"),
    [
        (pa.array([1_999, -1], pa.timestamp("ms")), 1, [1, -1]),
        (pa.array([2], pa.timestamp("s")), 1_000_000, [2_000_000]),
        (pa.array([5], pa.time32("ms")), 1_000, [5]),
        (pa.array([3], pa.date32()), 0, [3]),
        (pa.array([-7], pa.int8()), 0, [-7]),
    ],
)
def test_times_are_counted_in_the_units_of_the_schema(values: pa.Array, per_second: int, expected: list[int]) -> None:
    assert whole_numbers(values, per_second, "a").tolist() == expected


def test_numbers_that_do_not_fit_are_refused_with_their_place() -> None:
    with pytest.raises(DataError, match=r"order\.at has a time that does not fit"):
        whole_numbers(pa.array([2**62], pa.timestamp("s")), 1_000_000, "order.at")
    with pytest.raises(UnsupportedTypeError):
        whole_numbers(pa.array([1.5]), 0, "a")


def test_narrow_decimals_are_widened() -> None:
    assert widened(pa.array([None], pa.decimal64(10, 2))).type == pa.decimal128(10, 2)
    assert widened(pa.array([None], pa.decimal256(70, 2))).type == pa.decimal256(70, 2)
