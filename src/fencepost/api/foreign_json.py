"""Parses JSON from untrusted sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def parse_json(text: str | bytes, *, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Return the parsed JSON. Raises ValueError for invalid JSON, and for JSON nested too deeply for Python."""
    try:
        return json.loads(text, parse_float=parse_float)
    except RecursionError:
        raise ValueError("nested too deep to be read") from None
