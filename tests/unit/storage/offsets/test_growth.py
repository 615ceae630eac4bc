"""What the pages of a connector's offsets do does not grow with their number: counted, not timed."""

from __future__ import annotations

import json

import pytest

from fencepost.storage.offsets.codec import OffsetMark
from fencepost.storage.offsets.overlay import OffsetView
from fencepost.storage.offsets.table import OffsetTable
from tests.support.counting import work_of
from tests.support.offset_log import apply

_FEW = 400
_PAGE = 20
_LINEAR = 5.0
"""Pages of four times the offsets do at most so many times as much; 16 times, if each page looks at all offsets."""


def _table(offsets: int, time: int = 1) -> OffsetTable:
    table = OffsetTable()
    for number in range(offsets):
        apply(table, json.dumps(["c", {"t": f"{number:06}"}]).encode(), b'{"n":1}', mark=OffsetMark(time))
    return table


def _read(view: OffsetView, pages: int | None = None) -> int:
    """Read so many pages, or all; return how many offsets they had."""
    after: str | None = ""
    found = 0
    while after is not None and pages != 0:
        page = view.page(after, _PAGE)
        found, after = found + len(page.offsets), page.next
        pages = None if pages is None else pages - 1
    return found


@pytest.mark.parametrize("topics", [1, 2])
def test_pages_of_four_times_the_offsets_do_four_times_as_much(topics: int) -> None:
    costs = []
    for number in (_FEW, 4 * _FEW):
        view = OffsetView("c", *(_table(number, time) for time in range(topics)))
        costs.append(work_of(lambda view=view: _read(view)))  # type: ignore[misc]
        assert _read(view) == number
    few, many = costs
    assert many < _LINEAR * few


def test_a_page_does_as_much_whatever_the_number_of_offsets() -> None:
    costs = []
    for number in (_FEW, 4 * _FEW):
        view = OffsetView("c", _table(number))
        view.page("", _PAGE)
        costs.append(work_of(lambda view=view: _read(view, pages=1)))  # type: ignore[misc]
    few, many = costs
    assert many < 1.5 * few
