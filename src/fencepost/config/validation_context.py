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

    `committed` reads the connector's offsets; it is None while a configuration is validated. All other methods raise
    IllegalStateError.
    """

    properties: Mapping[str, str] = field(repr=False)
    allowed_paths: AllowedPaths
    committed: OffsetReader | None = field(default=None, repr=False)

    @property
    def offset_reader(self) -> OffsetReader:
        """Reads the connector's committed offsets. Raises IllegalStateError while a configuration is validated."""
        if self.committed is None:
            self._refuse("offset_reader")
        return self.committed

    @property
    def plugin_metrics(self) -> PluginMetrics:
        """Raises IllegalStateError: not available before `start`."""
        self._refuse("plugin_metrics")

    def configs(self) -> Mapping[str, str]:
        """Return the configuration that is being checked."""
        return MappingProxyType(dict(self.properties))

    def request_task_reconfiguration(self) -> None:
        """Raises IllegalStateError: not available before `start`."""
        self._refuse("request_task_reconfiguration")

    def raise_error(self, error: Exception) -> None:
        """Raises IllegalStateError: not available before `start`."""
        raise IllegalStateError("A connector was not started and reported an error: raise it instead") from error

    def _refuse(self, name: str) -> NoReturn:
        raise IllegalStateError(
            f"context.{name} was used while a configuration was checked: a connector has it from before start()"
        )
