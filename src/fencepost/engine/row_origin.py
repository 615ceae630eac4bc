"""Finds the place of a refused row in its source.

The search reads the splits again, so it is done only for a row that fails a task.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from fencepost.api.record import ArrowReader

_log: Final = logging.getLogger(__name__)


def origin_in_splits(reader: ArrowReader, splits: Sequence[Any], row: int) -> str:
    """Return a sentence about a row, by its number from 0 among all rows of the splits; empty if it is not found."""
    try:
        for split in splits:
            count = sum(part.num_rows for part in reader.read(split))
            if row < count:
                return origin_in_split(reader, split, row)
            row -= count
    except Exception:  # noqa: BLE001 - the source may have changed meanwhile, and the row's own error counts
        _log.debug("A refused row was not found again in its source", exc_info=True)
    return ""


def origin_in_split(reader: ArrowReader, split: Any, row: int) -> str:
    """Return a sentence about a row of a split, by its number from 0; empty if the reader does not know it."""
    place = getattr(reader, "place", None)
    if place is None:
        return ""
    try:
        return f" It is at {', '.join(f'{name} {text}' for name, text in place(split, row).items())}."
    except Exception:  # noqa: BLE001 - see above
        _log.debug("A refused row was not found again in its source", exc_info=True)
        return ""
