"""Requests about plugins. Plugins are imported on threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fencepost.config.plugins import sources_of
from fencepost.herder.entities import ConfigInfo, ConfigInfos, ConfigKeyInfo, PluginInfo
from fencepost.herder.interface import Plugins
from fencepost.herder.requests.config_infos import validate_connector_config
from fencepost.herder.requests.plugin_catalogue import PluginCatalogue
from fencepost.herder.work.parts import HerderParts


class PluginRequests(Plugins):
    """Answers requests about plugins and configurations."""

    def __init__(self, parts: HerderParts) -> None:
        self._parts = parts
        self._catalogue = PluginCatalogue(parts.requested.config.plugin_sources, parts.all_configs)

    async def infos(self) -> list[PluginInfo]:
        """Return all plugins."""
        return await self._parts.run(self._catalogue.infos)

    async def config(self, plugin: str, version: str | None = None) -> list[ConfigKeyInfo]:
        """Return the properties of a plugin. Raises the errors of `PluginCatalogue.config`."""
        return await self._parts.run(self._catalogue.config, plugin, version)

    async def validate(self, config: Mapping[str, str]) -> ConfigInfos:
        """Check a connector's configuration. Raises ConfigError if the worker does not have its connector class."""
        return await self._parts.run(self._validated, config)

    def _validated(self, config: Mapping[str, str]) -> ConfigInfos:
        infos = validate_connector_config(self._parts.requested, config)
        connector = sources_of(config, self._parts.requested.config.plugin_sources).connector
        classes = self._catalogue.recommended([info.value.name for info in infos.configs], connector)
        return replace(
            infos, configs=tuple(_with_classes(info, classes.get(info.value.name)) for info in infos.configs)
        )


def _with_classes(info: ConfigInfo, classes: Sequence[str] | None) -> ConfigInfo:
    """Recommend the installed classes for a property that names one, as Connect does."""
    return replace(info, value=replace(info.value, recommended_values=classes)) if classes else info
