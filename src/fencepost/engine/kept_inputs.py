"""Keeps untransformed rows until their records are converted, for dead letters and for logs of refused records."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from fencepost.engine.dead_letters import contents_of


class KeptInputs:
    """Rows by their numbers. Only one thread may use it."""

    def __init__(self) -> None:
        self._parts: deque[tuple[int, pa.RecordBatch]] = deque()

    def add(self, first: int, rows: pa.RecordBatch) -> None:
        """Keep rows whose numbers start with `first`. They follow the rows that were added before."""
        self._parts.append((first, rows))

    def forget(self, before: int) -> None:
        """Forget the batches in which all rows have numbers below `before`."""
        while self._parts and self._parts[0][0] + self._parts[0][1].num_rows <= before:
            self._parts.popleft()

    def content(self, number: int) -> object:
        """Return a row as a dict of its columns; None if the row is not kept."""
        for first, rows in self._parts:
            if first <= number < first + rows.num_rows:
                return contents_of(rows.slice(number - first, 1))[0]
        return None
