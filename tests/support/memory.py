"""How much memory an object holds."""

from __future__ import annotations

import gc
import sys
from types import FunctionType, MethodType, ModuleType
from typing import Any

_SHARED = (type, ModuleType, FunctionType, MethodType)


def size_of(root: object) -> int:
    """The bytes of an object and of all that it refers to, without code, classes and modules."""
    seen: dict[int, Any] = {}
    waiting = [root]
    while waiting:
        found = waiting.pop()
        if id(found) not in seen and not isinstance(found, _SHARED):
            seen[id(found)] = found
            waiting.extend(gc.get_referents(found))
    return sum(sys.getsizeof(found) for found in seen.values())
