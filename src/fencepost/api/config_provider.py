"""The base class of config providers, which look up values outside of configurations, mainly secrets (KIP-297)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from fencepost.api.config_def import ConfigDef


class ConfigProvider(ABC):
    """Resolves `${provider:path:key}` and `${provider:key}` in properties of workers and connectors."""

    def config(self) -> ConfigDef:
        """Return the definitions of the provider's own properties; by default there are none."""
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:  # noqa: B027 - many providers need nothing
        """Set the worker's properties that begin with `config.providers.<name>.param.`, without this prefix."""

    @abstractmethod
    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the values of `keys` at `path`. The path is empty if the placeholder has no path.

        Missing keys are omitted. Raises ConfigError if nothing can be looked up at `path`. Several threads may call
        this at the same time.
        """
