"""Chooses between the versions of a Java class if several folders of `plugin.path` have it (KIP-891)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.version_order import newest_first
from fencepost.config.version_range import VersionRange

_log: Final = logging.getLogger(__name__)

UNKNOWN: Final = "undefined"
"""The version of a class that reports none, or whose version cannot be read."""


def choose(
    candidates: Sequence[JavaPlugin], asked: str | None, version_of: Callable[[JavaPlugin], str]
) -> JavaPlugin | None:
    """Return the newest candidate with a version in the requested range; None if there are no candidates.

    The first of several candidates with the same version is returned. If no candidate has a requested version, the
    newest of all is returned, and the check of the configuration reports an error (see `plugin_versions`). The
    candidates are asked for their versions only if there are several.
    """
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    ordered = with_versions(candidates, version_of)
    wanted = _range(asked)
    fitting = [(plugin, version) for plugin, version in ordered if wanted is None or wanted.has(version)]
    chosen, found = (fitting or ordered)[0]
    others = sorted(str(plugin.location) for plugin, version in ordered if version == found and plugin != chosen)
    if others:
        _warn_of_same(chosen.java_class, found, str(chosen.location), ", ".join(others))
    return chosen


@lru_cache(maxsize=256)
def _warn_of_same(java_class: str, version: str, used: str, others: str) -> None:
    """Warn only once: each request about a connector chooses again."""
    _log.warning(
        "The Java class %s has the version %s in several places: %s is used, and not %s. Move all but one of them out of "
        "plugin.path, and restart the worker",
        java_class,
        version,
        used,
        others,
    )


def with_versions(
    candidates: Sequence[JavaPlugin], version_of: Callable[[JavaPlugin], str]
) -> list[tuple[JavaPlugin, str]]:
    """Return candidates with their versions, the newest first. Candidates without a version are last."""
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
        # The check of the configuration reports the invalid range.
        return None
