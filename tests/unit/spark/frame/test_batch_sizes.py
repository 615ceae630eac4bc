"""The batches that a sink considers small."""

from __future__ import annotations

from fencepost.spark.frame.batch_sizes import SMALL_BYTES, SMALL_ROWS, BatchSizes


def test_the_first_batch_is_not_taken_to_be_small():
    assert not BatchSizes().may_be_small


def test_a_batch_is_taken_to_be_small_after_a_small_one():
    sizes = BatchSizes()
    for records, sent, small in [
        (SMALL_ROWS, SMALL_BYTES, True),
        (SMALL_ROWS + 1, 10, False),
        (1, SMALL_BYTES + 1, False),
        (0, 0, True),
    ]:
        sizes.wrote(records, sent, refused=False)
        assert sizes.may_be_small is small


def test_rows_that_compress_well_are_not_looked_for_again_and_again():
    sizes = BatchSizes()
    sizes.wrote(10, 100_000, refused=True)
    assert not sizes.may_be_small
    sizes.wrote(10, 100_000, refused=False)
    assert not sizes.may_be_small
    sizes.wrote(10, 50_000, refused=False)
    assert sizes.may_be_small


def test_many_rows_say_nothing_of_the_size_of_few():
    sizes = BatchSizes()
    sizes.wrote(SMALL_ROWS + 1, 100_000, refused=True)
    sizes.wrote(10, 100_000, refused=False)
    assert sizes.may_be_small
