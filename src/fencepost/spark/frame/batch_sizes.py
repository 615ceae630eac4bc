"""Guesses from a sink's last batch whether the next one is small. Pure."""

from __future__ import annotations

from typing import Final

from fencepost.engine.source_write import SMALL_BATCH

SMALL_ROWS: Final = 1_000
"""The maximum number of rows in a batch that the driver converts and writes itself."""

SMALL_BYTES: Final = SMALL_BATCH
"""The maximum size of these rows."""


class BatchSizes:
    """Sizes of a sink's earlier batches. For one thread."""

    def __init__(self) -> None:
        self.may_be_small = False
        """Whether the last batch was small, so that the driver should look for the rows of the next one."""
        self._most_sent = SMALL_BYTES

    def wrote(self, records: int, sent: int, *, refused: bool) -> None:
        """Record a batch, with the bytes sent.

        `refused`: the driver tried to fetch the rows, but the batch was not small.
        """
        if refused and records <= SMALL_ROWS:
            # The rows were too large; compressed, they can be far smaller.
            self._most_sent = min(self._most_sent, sent // 2)
        self.may_be_small = records <= SMALL_ROWS and sent <= self._most_sent
