"""The connector's context while its configuration is validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NoReturn

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.context import OffsetReader
from fencepost.api.errors import IllegalStateError
from fencepost.api.plugin_metrics import PluginMetrics


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """The context of a connector that is not started: its configuration, and where it may read files.

    The rest raises IllegalStateError.
    """

    properties: Mapping[str, str] = field(repr=False)
    allowed_paths: AllowedPaths

    @property
    def offset_reader(self) -> OffsetReader:
        """Not before `start`."""
        self._refuse("offset_reader")

    @property
    def plugin_metrics(self) -> PluginMetrics:
        """Not before `start`."""
        self._refuse("plugin_metrics")

    def configs(self) -> Mapping[str, str]:
        """Return the configuration that is checked."""
        return MappingProxyType(dict(self.properties))

    def request_task_reconfiguration(self) -> None:
        """Not before `start`."""
        self._refuse("request_task_reconfiguration")

    def raise_error(self, error: Exception) -> None:
        """Not before `start`."""
        raise IllegalStateError("A connector was not started and reported an error: raise it instead") from error

    def _refuse(self, name: str) -> NoReturn:
        raise IllegalStateError(
            f"context.{name} was used while a configuration was checked: a connector has it from before start()"
        )
