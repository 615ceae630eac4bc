"""Checks the properties of the converters in a worker's file. Connectors that name no converters use these."""

from __future__ import annotations

import logging
from typing import Final

from fencepost.api.errors import FencepostError
from fencepost.config.plugin_instances import unknown_of_plugin
from fencepost.config.plugins import ROLES, find_plugin
from fencepost.config.properties import below
from fencepost.config.worker_config import WorkerConfig

_log: Final = logging.getLogger(__name__)


def warn_of_unknown_converter_properties(worker: WorkerConfig) -> None:
    """Log a warning for each property that a converter in the worker's file does not define."""
    for role, kind in ROLES.items():
        given = below(worker.properties, f"{role}.")
        if not given:
            continue
        try:
            plugin = find_plugin(kind, worker.properties[role], property_name=role, sources=worker.plugin_sources)
            unknown = unknown_of_plugin(kind, plugin, given)
        except FencepostError:
            # This error is reported for the connectors that use the converter.
            continue
        for name, nearest in unknown.items():
            hint = "" if nearest is None else f": did you mean {role}.{nearest}?"
            _log.warning(
                "The property %s.%s, set in %s, is not known to %s and has no effect%s",
                role, name, worker.where, plugin.__name__, hint,
            )  # fmt: skip
