"""Starts a connector in the test's own process, as a worker would."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.errors import ConfigError
from fencepost.api.source import SourceConnector, SourceTask, describe
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.preflight import with_name
from fencepost.config.validation_context import ValidationContext
from fencepost.runtime.plugin_metrics import WorkerPluginMetrics
from fencepost.testing.source_offsets import SourceOffsets

NAME: Final = "test"
"""The name of the connector if its configuration has none."""


class ConnectorContext:
    """Implements `fencepost.SourceConnectorContext`. `reconfigurations` counts the connector's requests."""

    def __init__(self, config: Mapping[str, str], offsets: SourceOffsets) -> None:
        self._config = MappingProxyType(dict(config))
        self._offsets = offsets
        self.plugin_metrics = WorkerPluginMetrics("the connector")
        self.reconfigurations = 0
        self.error: Exception | None = None

    @property
    def offset_reader(self) -> SourceOffsets:
        """Reads the connector's committed offsets."""
        return self._offsets

    @property
    def allowed_paths(self) -> AllowedPaths:
        """Allows all paths."""
        return ANYWHERE

    def configs(self) -> Mapping[str, str]:
        """Return the connector's configuration."""
        return self._config

    def request_task_reconfiguration(self) -> None:
        """Count the connector's request."""
        self.reconfigurations += 1

    def raise_error(self, error: Exception) -> None:
        """Keep the error."""
        self.error = error


class StartedConnector:
    """A connector that was validated and started. Raises the errors of the connector's methods."""

    def __init__(
        self, connector: type[SourceConnector], config: Mapping[str, str], offsets: SourceOffsets | None = None
    ) -> None:
        """Raises ConfigError with all errors of the configuration."""
        self.config = full_config(connector, config)
        self.checked = ConnectorConfig.from_properties(self.config)
        self.offsets = SourceOffsets(connector=self.checked.name) if offsets is None else offsets
        self.instance = ConnectorInstance.of(connector, self.checked.name)
        self.instance.set_context(ValidationContext(self.config, ANYWHERE))
        values = self.instance.validate(self.config)
        if errors := [with_name(value.name, error) for value in values for error in value.errors]:
            raise ConfigError(f"The configuration of connector {self.checked.name} is invalid: {'; '.join(errors)}")
        self.context = ConnectorContext(self.config, self.offsets)
        self.instance.start(self.config, self.context)

    def task_class(self) -> type[SourceTask]:
        """Return the class of the connector's tasks."""
        return self.instance.task_class()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return a configuration for each task."""
        return self.instance.task_configs(max_tasks)

    def stop(self) -> None:
        """Stop the connector."""
        self.instance.stop()


def full_config(connector: type[SourceConnector], config: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration with the properties that every connector must have."""
    return {"name": NAME, "connector.class": describe(connector), "tasks.max": "1", **config}
