from __future__ import annotations

import pytest

from fencepost.kafka.records.batch_cuts import even_cuts, rest_of_batch


@pytest.mark.parametrize("count", [1, 9, 10, 11, 25, 99, 1_000])
@pytest.mark.parametrize("first", [False, True])
def test_cuts_have_each_record_once_and_about_equal_sizes(count: int, first: bool) -> None:
    cuts = list(even_cuts(count, count * 10_000, 100_000, first=first))
    assert [start for start, _ in cuts] == [sum(length for _, length in cuts[:i]) for i in range(len(cuts))]
    assert sum(length for _, length in cuts) == count
    assert all(length <= 10 for _, length in cuts)
    lengths = [length for _, length in cuts[first:]]
    assert not lengths or max(lengths) - lengths[-1] <= len(lengths)


def test_the_first_batch_of_a_transaction_is_small_if_many_records_follow() -> None:
    assert next(even_cuts(1_000, 1_000_000, 100_000, first=True)) == (0, 33)
    assert list(even_cuts(40, 40_000, 100_000, first=True)) == [(0, 40)]
    assert list(even_cuts(1_000, 100_000, 50_000, first=True)) == [(0, 500), (500, 500)]


def test_the_rest_of_one_full_batch_waits_for_later_records() -> None:
    assert rest_of_batch(100, 100_000, 80_000) == 25
    assert rest_of_batch(75, 75_000, 80_000) == 0
    # More than half a batch is sent as it is; the rest of several batches is divided evenly.
    assert rest_of_batch(120, 120_000, 80_000) == 0
    assert rest_of_batch(310, 310_000, 80_000) == 0
