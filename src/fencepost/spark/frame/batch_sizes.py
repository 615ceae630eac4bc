"""Guesses from a sink's last batch whether the next one will be small. Pure: no I/O."""

from __future__ import annotations

from typing import Final

from fencepost.engine.source_write import SMALL_BATCH

SMALL_ROWS: Final = 1_000
"""The largest number of rows in a batch that the driver itself converts and writes."""

SMALL_BYTES: Final = SMALL_BATCH
"""The largest size of the rows, in bytes, in a batch that the driver itself converts and writes."""


class BatchSizes:
    """The sizes of a sink's earlier batches. Only one thread may use it."""

    def __init__(self) -> None:
        self.may_be_small = False
        """Whether the last batch was small, so that the driver should try to fetch the rows of the next one."""
        self._most_sent = SMALL_BYTES

    def wrote(self, records: int, sent: int, *, refused: bool) -> None:
        """Record a batch, and the number of bytes that were sent.

        `refused` means that the driver tried to fetch the rows, but the batch was not small.
        """
        if refused and records <= SMALL_ROWS:
            # The rows were too large, but `sent` counts compressed bytes, which may be far fewer. So the limit for
            # `sent` is lowered.
            self._most_sent = min(self._most_sent, sent // 2)
        self.may_be_small = records <= SMALL_ROWS and sent <= self._most_sent
