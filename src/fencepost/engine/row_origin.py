"""Says where in its source a refused row is. Its splits are read again for that, so only the row that fails a task is looked for."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from fencepost.api.record import ArrowReader

_log: Final = logging.getLogger(__name__)


def origin_in_splits(reader: ArrowReader, splits: Sequence[Any], row: int) -> str:
    """Return a sentence on the row with a number, from 0, among the rows of some splits; nothing if it is not found."""
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
    """Return a sentence on the row with a number, from 0, in a split; nothing if the reader does not know."""
    place = getattr(reader, "place", None)
    if place is None:
        return ""
    try:
        return f" It is at {', '.join(f'{name} {text}' for name, text in place(split, row).items())}."
    except Exception:  # noqa: BLE001 - see above
        _log.debug("A refused row was not found again in its source", exc_info=True)
        return ""
