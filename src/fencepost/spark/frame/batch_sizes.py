"""Guesses from a sink's last batch whether the next one is small. Pure."""

from __future__ import annotations

from typing import Final

from fencepost.engine.engine import SMALL_BATCH

SMALL_ROWS: Final = 1_000
"""The number of rows up to which the driver converts and writes a batch itself."""

SMALL_BYTES: Final = SMALL_BATCH
"""The size of the rows up to which it does."""


class BatchSizes:
    """Sizes of a sink's earlier batches. For one thread."""

    def __init__(self) -> None:
        self.may_be_small = False
        """Whether the last batch was small, so that the driver should look for the rows of the next one."""
        self._most_sent = SMALL_BYTES

    def wrote(self, records: int, sent: int, *, refused: bool) -> None:
        """Note a batch, with the bytes sent. `refused`: the driver looked for its rows, and they were no small batch."""
        if refused and records <= SMALL_ROWS:
            # The rows were too large; they can be far larger than what is sent of them compressed.
            self._most_sent = min(self._most_sent, sent // 2)
        self.may_be_small = records <= SMALL_ROWS and sent <= self._most_sent
