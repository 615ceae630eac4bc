"""Where records are cut into batches, by estimated sizes. Only numbers: `split_by_bytes` has the exact sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

_FILL: Final = 15 / 16
"""The share of a batch that is filled if record sizes are estimated: some are longer than others."""

_JOINING_BATCH_BYTES: Final = 32_768
"""The size of a partition's first batch in a transaction, if many records follow."""


def rest_of_batch(count: int, size: int, limit: int) -> int:
    """Return how many of `count` records, of an estimated `size`, remain after a full batch; 0 for half a batch or more.

    The rest of several batches is divided among them instead: to join it to later records would copy all of these.
    """
    full = int(count * _FILL * limit / size)
    rest = count % full if full < count < 2 * full else 0
    return rest if rest * size / count < limit / 2 else 0


def even_cuts(count: int, size: int, limit: int, *, first: bool) -> Iterator[tuple[int, int]]:
    """Yield the starts and lengths of batches of about equal size.

    The `first` batch of a partition in a transaction is small: nothing else is sent until it is answered.
    """
    start = 0
    if first and size > limit / 2 > _JOINING_BATCH_BYTES:
        start = math.ceil(count * _JOINING_BATCH_BYTES / size)
        yield 0, start
    rest = count - start
    batches = math.ceil(size * rest / count / limit)
    step = math.ceil(rest / max(1, batches))
    while start < count:
        yield start, min(step, count - start)
        start += step
