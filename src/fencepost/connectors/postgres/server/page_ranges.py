"""Ranges of a table's pages, to share a large table among several readers without using a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WITH_PAGE_RANGES: Final = 140_000
"""The first version that can scan only a range of pages. In earlier versions each range would read the whole table."""


@dataclass(frozen=True, slots=True)
class PageRange:
    """The pages of a table from `start` up to, but not including, `end`.

    If `end` is None, the range extends to the table's end, however much the table grew.
    """

    start: int
    end: int | None

    def condition(self, ctid: str) -> str:
        """Return the SQL condition for the rows in these pages. `ctid` is the SQL expression of a row's ctid."""
        conditions = [f"{ctid} >= '({self.start},0)'::tid"] if self.start else []
        if self.end is not None:
            conditions.append(f"{ctid} < '({self.end},0)'::tid")
        return " AND ".join(conditions) or "true"


WHOLE_TABLE: Final = PageRange(0, None)


def page_ranges(pages: int, pages_per_range: int, server_version: int) -> list[PageRange]:
    """Return the page ranges of a table with `pages` pages; one range if the server cannot scan a part of a table."""
    if server_version < WITH_PAGE_RANGES:
        return [WHOLE_TABLE]
    starts = list(range(0, max(1, pages), pages_per_range))
    return [PageRange(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
