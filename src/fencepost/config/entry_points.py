"""The plugins that installed packages, and packages in `plugin.path`, register under names."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

CONNECTORS: Final = "fencepost.connectors"
"""The group of connectors."""


def registered(group: str) -> Mapping[str, EntryPoint]:
    """Return a group's entry points by name. If names are equal, the first one on the import path counts."""
    return _registered(group, tuple(sys.path))


def forget_entry_points() -> None:
    """Clear the cache, so that the packages on the import path are read again."""
    _registered.cache_clear()


@lru_cache(maxsize=16)
def _registered(group: str, import_path: tuple[str, ...]) -> Mapping[str, EntryPoint]:  # noqa: ARG001 - what is installed depends on it
    """Cached, because reading the entry points takes 10 ms or more, and a configuration names several plugins."""
    return {entry.name: entry for entry in reversed(tuple(entry_points(group=group)))}
