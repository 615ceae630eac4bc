"""Converts the unscaled values in Connect's formats to decimals."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Final

_EXACT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_LARGEST_SCALE: Final = 100_000


def scaled(unscaled: bytes, scale: int) -> Decimal:
    """Return the decimal with an unscaled value, in big-endian two's complement. All digits are kept.

    Python's default decimal context would round to 28 digits. Raises ValueError for a scale that only a broken or
    hostile program writes, because the decimal's text would have billions of digits.
    """
    if abs(scale) > _LARGEST_SCALE:
        raise ValueError(f"a decimal with the scale {scale}")
    return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT)
