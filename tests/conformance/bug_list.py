"""Connectors with one bug each, as authors write them, and the check that finds each bug."""

from __future__ import annotations

import threading
from typing import Any, Final

from fencepost import SourceConnector, SourceTask
from tests.conformance.streams import StreamsConnector

BUGS: Final[dict[type[SourceConnector], str]] = {}

RELEASED: Final = threading.Event()
"""Releases blocked polls at the end of a test."""


def found_by(check: str) -> Any:
    """Note the check that finds the bug of a task, or of a connector."""

    def note(plugin: type[Any]) -> type[Any]:
        if issubclass(plugin, SourceTask):
            named = {"task": plugin, "__module__": plugin.__module__}
            connector: type[SourceConnector] = type(plugin.__name__, (StreamsConnector,), named)
        else:
            connector = plugin
        BUGS[connector] = check
        return plugin

    return note
