"""A summary of a set of numbers, from which the differences from a similar set can be computed.

A summary has the same size for sets of any size.

A summary is an invertible Bloom lookup table (Eppstein, Goodrich, Uyeda and Varghese, "What's the Difference?", SIGCOMM
2011). Each number is in one cell of each of three parts. A cell holds the exclusive or of its numbers, and the
exclusive or of their checksums. Numbers that two sets share cancel out when their tables are combined. A cell with
exactly one remaining number can be recognised, because the checksum matches the number. This number is then removed
from its other cells. One of these cells may then have a single number, and so on.
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
"""The number of cells in each of the table's three parts.

All parts together take 25,200 bytes. Up to 1,600 differences can usually be found with them.
"""

_PARTS: Final = 3
_CHECK_SEED: Final = 1 << 32
_CELL_SEED: Final = 1 << 33


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """The cells: their numbers, and their checksums of 32 bits."""

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
        """Read a text that `in_text` wrote. Raises ValueError for any other text."""
        content = base64.b64decode(text, validate=True)
        count = _PARTS * PART_CELLS
        if len(content) != 12 * count:
            raise ValueError(f"it has {len(content)} bytes")
        return cls(np.frombuffer(content, "<u8", count).copy(), np.frombuffer(content, "<u4", offset=8 * count).copy())

    def in_text(self) -> str:
        """Return the cells as text, 33,600 characters."""
        return base64.b64encode(self.keys.astype("<u8").tobytes() + self.checks.astype("<u4").tobytes()).decode()

    def differences(self, numbers: Numbers) -> Numbers | None:
        """Return the numbers that are only in the summarized set or only in `numbers`; None if there are too many."""
        keys, checks = self.keys.copy(), self.checks.copy()
        _toggle(keys, checks, numbers)
        found: set[int] = set()
        # Each round finds at least one number, or is the last round. A wrong number is found if a checksum matches by
        # chance; a later round cancels it.
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
    # Each part uses other bits of the same hash.
    bits = mixed(numbers, _CELL_SEED) >> (parts * 20).astype(np.uint64)
    cells: NDArray[np.int64] = (bits & np.uint64((1 << 20) - 1)).astype(np.int64) % PART_CELLS + parts * PART_CELLS
    return cells
