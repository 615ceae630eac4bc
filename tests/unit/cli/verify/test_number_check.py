"""The check finds lost, duplicate and unordered numbers, and reports nothing else."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fencepost.cli.verify.number_check import (
    NumberCheck,
    NumberRanges,
    OffsetMismatch,
    PartitionFindings,
    compare_offsets,
)


def _found(*numbers: int, first: int | None = 1) -> PartitionFindings:
    """The findings for numbers in one partition."""
    check = NumberCheck(first)
    for number in numbers:
        check.see("p", number, 0)
    (found,) = check.findings().partitions
    return found


@given(st.lists(st.integers(-20, 20)))
def test_ranges_hold_the_numbers_that_were_added(numbers: list[int]) -> None:
    ranges = NumberRanges()

    assert [ranges.add(number) for number in numbers] == [
        number not in numbers[:position] for position, number in enumerate(numbers)
    ]
    missing = [number for start, end in (ranges.gaps(-25) if numbers else ()) for number in range(start, end + 1)]
    if numbers:
        assert (ranges.lowest, ranges.highest) == (min(numbers), max(numbers))
        assert missing == [number for number in range(-25, max(numbers)) if number not in numbers]


def test_numbers_that_come_in_order_take_one_range() -> None:
    ranges = NumberRanges()
    for number in range(10_000):
        ranges.add(number)

    assert len(ranges) == 1


@given(st.permutations(range(1, 8)))
def test_any_order_but_one_is_out_of_order(numbers: list[int]) -> None:
    found = _found(*numbers)

    assert (found.lost, found.duplicates) == (0, 0)
    assert found.sound == (numbers == sorted(numbers))


@given(st.lists(st.integers(1, 10), min_size=1))
def test_lost_and_duplicated_records_are_counted_in_any_order(numbers: list[int]) -> None:
    found = _found(*numbers)

    assert found.lost == max(numbers) - len(set(numbers))
    assert found.duplicates == sum(Counter(numbers).values()) - len(set(numbers))


def test_a_gap_at_the_beginning_counts_only_if_the_first_number_is_known() -> None:
    assert _found(3, 4).lost == 2
    assert _found(3, 4).missing == ((1, 2),)
    assert _found(3, 4, first=None).sound


def test_there_is_an_order_within_a_partition_of_the_topic_only() -> None:
    check = NumberCheck(1)
    for number, partition in ((2, 0), (1, 1), (4, 0), (3, 1)):
        check.see("p", number, partition)

    assert check.findings().sound


def test_a_source_partition_does_not_make_up_for_another() -> None:
    check = NumberCheck(1)
    for name, number in (("a", 1), ("b", 1), ("b", 2), ("b", 2), ("a", 3)):
        check.see(name, number, 0)
    findings = check.findings()

    assert [(found.source_partition, found.lost, found.duplicates) for found in findings.partitions] == [
        ("a", 1, 0),
        ("b", 0, 1),
    ]
    assert (findings.lost, findings.duplicates) == (1, 1)


def test_a_record_without_a_number_is_not_sound() -> None:
    check = NumberCheck()
    check.see("p", 1, 0)
    check.skip("topic-0@1")
    check.skip("topic-0@2")
    findings = check.findings()

    assert (findings.skipped, findings.first_skipped, findings.sound) == (2, "topic-0@1", False)


def test_an_offset_must_match_the_last_record() -> None:
    committed = [({"task": "a"}, {"saved": 3}), ({"task": "b"}, {"saved": 5}), ({"task": "gone"}, None)]

    assert compare_offsets({"a": 3, "b": 5}, committed) == ()
    assert compare_offsets({"a": 3, "b": 4}, committed) == (OffsetMismatch("b", 4, "5"),)
    assert compare_offsets({"a": 3}, committed) == (OffsetMismatch("b", None, "5"),)
    assert compare_offsets({"a": 3, "b": 5, "c": 1}, committed) == (OffsetMismatch("c", 1, None),)


def test_an_only_source_partition_needs_no_name() -> None:
    assert compare_offsets({"": 3}, [({"counter": 1}, {"number": 3})]) == ()
    assert compare_offsets({"": 3}, [({"counter": 1}, {"number": 2})]) == (OffsetMismatch("", 3, "2"),)
