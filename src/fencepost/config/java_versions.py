"""Chooses among the versions of a Java class that are in several folders of `plugin.path` (KIP-891)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.version_order import newest_first
from fencepost.config.version_range import VersionRange

_log: Final = logging.getLogger(__name__)

UNKNOWN: Final = "undefined"
"""The version of a class that reports none, or that cannot be asked."""


def choose(
    candidates: Sequence[JavaPlugin], asked: str | None, version_of: Callable[[JavaPlugin], str]
) -> JavaPlugin | None:
    """Return the newest candidate whose version is asked for, None if there are no candidates.

    Of several with this version, the first. If none has such a version, the newest of all: whoever checks a configuration
    reports that (see `plugin_versions`). The candidates are asked for their versions only if there are several.
    """
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    ordered = with_versions(candidates, version_of)
    wanted = _range(asked)
    fitting = [plugin for plugin, version in ordered if wanted is None or wanted.has(version)]
    return fitting[0] if fitting else ordered[0][0]


def with_versions(
    candidates: Sequence[JavaPlugin], version_of: Callable[[JavaPlugin], str]
) -> list[tuple[JavaPlugin, str]]:
    """Return candidates with their versions, the newest first, and last what has none."""
    return newest_first([(plugin, _asked(plugin, version_of)) for plugin in candidates], lambda one: one[1])


def _asked(plugin: JavaPlugin, version_of: Callable[[JavaPlugin], str]) -> str:
    try:
        return version_of(plugin)
    except FencepostError as error:
        _log.error("The Java class %s in %s cannot be used: %s", plugin.java_class, plugin.location, error)
        return UNKNOWN


def _range(asked: str | None) -> VersionRange | None:
    try:
        return None if asked is None else VersionRange.of("version", asked)
    except ConfigError:
        # The check of the configuration says so.
        return None
