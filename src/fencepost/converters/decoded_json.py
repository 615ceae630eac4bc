"""Decoded data as JSON."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any


def to_json(value: Any) -> str:
    """Return decoded data as one line of JSON.

    Decimals are numbers with all of their digits. NaN and the infinities, which JSON does not have, are texts, as Kafka
    Connect writes them. Characters that would control a terminal are escaped.
    """
    try:
        text = _rendered(value)
    except RecursionError:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _rendered(value: Any) -> str:
    match value:
        case Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return json.dumps(json.dumps(value))
        case dict():
            return f"{{{', '.join(f'{_rendered(name)}: {_rendered(field)}' for name, field in value.items())}}}"
        case list():
            return f"[{', '.join(map(_rendered, value))}]"
    return json.dumps(value, ensure_ascii=False)
