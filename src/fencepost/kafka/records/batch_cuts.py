"""Decides where records are cut into batches, by estimated sizes. It only uses numbers; `split_by_bytes` is exact."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

_FILL: Final = 15 / 16
"""The share of a batch to fill if sizes are estimated. Records may be longer than the average."""

_JOINING_BATCH_BYTES: Final = 32_768
"""The size of a partition's first batch in a transaction, if many records follow."""


def rest_of_batch(count: int, size: int, limit: int) -> int:
    """Return how many of `count` records remain after one full batch; 0 if the remaining records fill half a batch.

    `size` is the number of bytes of all records together. The result is also 0 if there are several full batches: these
    share the remaining records. The caller joins remaining records to later ones, which copies the later ones.
    """
    full = int(count * _FILL * limit / size)
    rest = count % full if full < count < 2 * full else 0
    return rest if rest * size / count < limit / 2 else 0


def even_cuts(count: int, size: int, limit: int, *, first: bool) -> Iterator[tuple[int, int]]:
    """Yield the starts and lengths of batches of approximately equal size.

    `size` is the number of bytes of all `count` records together. The `first` batch of a partition in a transaction is
    small, because no other batch is sent until that batch is answered.
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
