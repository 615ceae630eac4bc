"""A summary of a set of numbers, by which a similar set finds where it differs, however much both have in common.

It is an invertible Bloom lookup table (Eppstein, Goodrich, Uyeda and Varghese, "What's the Difference?", SIGCOMM 2011). A
number is in one cell of each of three parts. A cell holds the exclusive or of its numbers, and of their checks. Numbers that
two sets share cancel out when their tables are combined. A cell with one of the other numbers shows it, because its check
fits. This number is taken out of its other cells, which may leave another number alone in one, and so on.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from fencepost.connectors.distribution import mixed

Numbers = NDArray[np.uint64]

PART_CELLS: Final = 700
"""The number of cells in a part. All parts take 25,200 bytes, and usually show 1,600 differences."""

_PARTS: Final = 3
_CHECK_SEED: Final = 1 << 32
_CELL_SEED: Final = 1 << 33


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """The cells: their numbers, and their checks of 32 bits."""

    keys: Numbers
    checks: NDArray[np.uint32]

    @classmethod
    def of(cls, numbers: Numbers) -> Self:
        """Summarize different numbers of 64 bits."""
        keys = np.zeros(_PARTS * PART_CELLS, np.uint64)
        checks = np.zeros(_PARTS * PART_CELLS, np.uint32)
        _toggle(keys, checks, numbers)
        return cls(keys, checks)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `in_text` wrote. Raises ValueError for anything else."""
        content = base64.b64decode(text, validate=True)
        count = _PARTS * PART_CELLS
        if len(content) != 12 * count:
            raise ValueError(f"it has {len(content)} bytes")
        return cls(np.frombuffer(content, "<u8", count).copy(), np.frombuffer(content, "<u4", offset=8 * count).copy())

    def in_text(self) -> str:
        """Return the cells as text, 33,600 characters."""
        return base64.b64encode(self.keys.astype("<u8").tobytes() + self.checks.astype("<u4").tobytes()).decode()

    def differences(self, numbers: Numbers) -> Numbers | None:
        """Return the numbers that only the summarized set has, or only this one; None if they are too many."""
        keys, checks = self.keys.copy(), self.checks.copy()
        _toggle(keys, checks, numbers)
        found: set[int] = set()
        # Each round shows a number, or it is the last. A cell that only seems to have one may bring it back.
        for _ in range(keys.size):
            alone = np.flatnonzero((checks == _check(keys)) & (keys != 0))
            shown = np.unique(keys[alone[_cells(keys[alone], alone // PART_CELLS) == alone]])
            if not shown.size:
                break
            found.symmetric_difference_update(shown.tolist())
            _toggle(keys, checks, shown)
        return None if keys.any() or checks.any() else np.array(sorted(found), np.uint64)


def _toggle(keys: Numbers, checks: NDArray[np.uint32], numbers: Numbers) -> None:
    check = _check(numbers)
    for part in range(_PARTS):
        cells = _cells(numbers, np.full(numbers.size, part))
        np.bitwise_xor.at(keys, cells, numbers)
        np.bitwise_xor.at(checks, cells, check)


def _check(numbers: Numbers) -> NDArray[np.uint32]:
    return (mixed(numbers, _CHECK_SEED) >> np.uint64(32)).astype(np.uint32)


def _cells(numbers: Numbers, parts: NDArray[np.int64]) -> NDArray[np.int64]:
    # The parts take bits of one hash.
    bits = mixed(numbers, _CELL_SEED) >> (parts * 20).astype(np.uint64)
    cells: NDArray[np.int64] = (bits & np.uint64((1 << 20) - 1)).astype(np.int64) % PART_CELLS + parts * PART_CELLS
    return cells
