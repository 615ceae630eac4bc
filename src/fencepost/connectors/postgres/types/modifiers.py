"""Type modifiers of `numeric`, in the form of `atttypmod` in the catalog.

https://www.postgresql.org/docs/current/datatype-numeric.html#DATATYPE-NUMERIC-DECIMAL
"""

from __future__ import annotations

from typing import Final

_HEADER: Final = 4


def precision_and_scale(modifier: int) -> tuple[int, int] | None:
    """Return the precision and the scale of a `numeric`; None if neither is declared.

    The scale may be negative (numeric(3,-2) has numbers such as 12300) or exceed the precision (numeric(2,4) has
    0.0012).
    """
    if modifier < _HEADER:
        return None
    packed = modifier - _HEADER
    # The scale has 11 bits, one of them for its sign.
    return packed >> 16, ((packed & 0x7FF) ^ 0x400) - 0x400
