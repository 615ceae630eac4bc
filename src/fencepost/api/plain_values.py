"""Suggests a plain Python value in place of one that is refused, for the message."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time
from typing import Any, Final

from fencepost.api.plugin_calls import kind_of

_PLAIN: Final = (str, int, bytes, bytearray, memoryview, type(None))
_NAMES: Final = (str, int, float, type(None))
# Of pandas and numpy, by their names: neither is imported for a message.
_MISSING: Final = frozenset({"NaTType", "NAType"})
_NUMPY_TIMES: Final = frozenset({"datetime64", "timedelta64"})


def instead_of(value: Any) -> str:
    """Return a replacement for a value that is not plain, as an expression; None if there is none."""
    kind = type(value)
    if isinstance(value, float) or kind.__name__ in _MISSING:
        return "None"
    if isinstance(value, date | time):
        return "value.isoformat()"
    if isinstance(value, set | frozenset | range):
        return "list(value)"
    if kind.__module__ == "numpy" and kind.__name__ not in _NUMPY_TIMES:
        return "value.tolist()" if kind.__name__ == "ndarray" else "value.item()"
    return "None" if kind.__name__ in _NUMPY_TIMES and str(value) == "NaT" else "str(value)"


def why_no_json(value: Any) -> str | None:
    """Return the value in a structure that JSON cannot hold, its path, and a replacement.

    Returns None if there is no such value, or the structure is too deep.
    """
    try:
        return _unfit(value, "")
    except RecursionError:
        return None


def _unfit(value: Any, path: str) -> str | None:
    here = path or "it"
    if isinstance(value, Mapping):
        for name, member in value.items():
            if not isinstance(name, _NAMES):
                return f"{here} has the name {name!r}, which is {kind_of(name)}. Give a text in its place"
            if found := _unfit(member, f"{path}.{name}" if path else str(name)):
                return found
        return None
    if isinstance(value, list | tuple):
        return next((found for item in value if (found := _unfit(item, path))), None)
    if isinstance(value, _PLAIN) or (isinstance(value, float) and math.isfinite(value)):
        return None
    shown = repr(float(value)) if isinstance(value, float) else kind_of(value)
    return f"{here} is {shown}, which JSON does not have. Give {instead_of(value)} in its place"
