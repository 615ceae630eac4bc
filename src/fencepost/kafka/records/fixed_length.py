"""Lays out records of equal size as the rows of a matrix.

If all lengths are equal, a record is a row of strips, each as wide in every row, and a strip of all rows is one strided
copy. That takes a fraction of what views and their cast take (bench/encoder.py), which look at each record's lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

# Numpy copies numbers faster than bytes of the same width.
_NUMBERS: Final = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}


@dataclass(frozen=True, slots=True)
class Strip:
    """`width` bytes of every row: the first row's begin at `start` of `data`, each further row's `step` after that."""

    data: Any
    start: int
    width: int
    step: int


@dataclass(frozen=True, slots=True)
class Run:
    """`count` rows, from the row `first` of the strips on: what they consist of from left to right.

    Bytes are the same in every row.
    """

    first: int
    count: int
    row: Sequence[Strip | bytes]


def laid_out(runs: Sequence[Run]) -> memoryview:
    """The concatenated bytes of all rows."""
    matrices = [(run, list(_strips(run.row)), width(run.row)) for run in runs]
    data = pa.allocate_buffer(sum(run.count * row_bytes for run, _, row_bytes in matrices))
    position = 0
    for run, strips, row_bytes in matrices:
        for strip in strips:
            kind = _NUMBERS.get(strip.width, f"V{strip.width}")
            start = strip.start + run.first * strip.step
            source = np.ndarray(run.count, kind, strip.data, start, (strip.step,))
            np.ndarray(run.count, kind, data, position, (row_bytes,))[:] = source
            position += strip.width
        position += (run.count - 1) * row_bytes
    return memoryview(data)


def width(row: Iterable[Strip | bytes]) -> int:
    """How many bytes a row takes."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.width for piece in row)


def _strips(row: Iterable[Strip | bytes]) -> Iterator[Strip]:
    """A row with adjacent bytes as one strip."""
    constant = b""
    for piece in row:
        if isinstance(piece, bytes):
            constant += piece
        else:
            yield from _repeated(constant)
            constant = b""
            yield piece
    yield from _repeated(constant)


def _repeated(constant: bytes) -> Iterator[Strip]:
    if constant:
        yield Strip(constant, 0, len(constant), 0)
