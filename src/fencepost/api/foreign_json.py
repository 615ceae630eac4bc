"""JSON that others wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def parse_json(text: str | bytes, *, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Return what JSON says. Raises ValueError for what is no JSON, and for what nests deeper than Python can read."""
    try:
        return json.loads(text, parse_float=parse_float)
    except RecursionError:
        raise ValueError("nested too deep to be read") from None
