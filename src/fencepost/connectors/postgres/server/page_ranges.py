"""Ranges of a table's pages, for sharing a large table between readers without a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WITH_PAGE_RANGES: Final = 140_000
"""The first version that can scan a range of pages alone: before, each range would read the whole table."""


@dataclass(frozen=True, slots=True)
class PageRange:
    """The pages of a table from `start` to `end`, exclusively; None is the table's end, however much it grew."""

    start: int
    end: int | None

    def condition(self, ctid: str) -> str:
        """Return the condition of SQL for the rows in these pages; `ctid` is the expression for a row's place."""
        conditions = [f"{ctid} >= '({self.start},0)'::tid"] if self.start else []
        if self.end is not None:
            conditions.append(f"{ctid} < '({self.end},0)'::tid")
        return " AND ".join(conditions) or "true"


WHOLE_TABLE: Final = PageRange(0, None)


def page_ranges(pages: int, pages_per_range: int, server_version: int) -> list[PageRange]:
    """Return the ranges of a table of `pages` pages; one if the server cannot scan a range alone."""
    if server_version < WITH_PAGE_RANGES:
        return [WHOLE_TABLE]
    starts = list(range(0, max(1, pages), pages_per_range))
    return [PageRange(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
