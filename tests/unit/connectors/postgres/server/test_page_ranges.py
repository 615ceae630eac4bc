"""Page ranges that cover each page of a table once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.connectors.postgres.server.page_ranges import WHOLE_TABLE, PageRange, page_ranges


@given(st.integers(0, 10_000), st.integers(1, 5_000))
def test_ranges_cover_each_page_once_and_later_pages(pages: int, size: int):
    ranges = page_ranges(pages, size, 140_000)
    assert ranges[0].start == 0
    assert [part.end for part in ranges[:-1]] == [part.start for part in ranges[1:]]
    assert ranges[-1].end is None
    assert all(part.end - part.start == size for part in ranges[:-1] if part.end is not None)
    assert ranges[-1].start < max(1, pages)


def test_a_server_without_scans_of_ranges_reads_a_table_at_once():
    assert page_ranges(10_000, 1, 130_020) == [WHOLE_TABLE]


@pytest.mark.parametrize(
    ("part", "condition"),
    [
        (WHOLE_TABLE, "true"),
        (PageRange(0, 5), "t.ctid < '(5,0)'::tid"),
        (PageRange(5, 9), "t.ctid >= '(5,0)'::tid AND t.ctid < '(9,0)'::tid"),
        (PageRange(9, None), "t.ctid >= '(9,0)'::tid"),
    ],
)
def test_a_range_is_a_condition_of_sql(part: PageRange, condition: str):
    assert part.condition("t.ctid") == condition
