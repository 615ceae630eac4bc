"""Validates a connector's configuration for a request, and shows definitions and results as Connect's REST API does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fencepost.api.config_def import ConfigKey, ConfigValue, PropertyType
from fencepost.api.secrets import HIDDEN
from fencepost.api.source import describe
from fencepost.herder.entities import ConfigInfo, ConfigInfos, ConfigKeyInfo, ConfigValueInfo
from fencepost.runtime.worker import Worker


def validate_connector_config(worker: Worker, config: Mapping[str, str]) -> ConfigInfos:
    """Check a connector's configuration as a worker would run it. Warns about unknown properties.

    Raises ConfigError if the worker does not have its connector class, or if the class's code fails.
    """
    validation = worker.validate(config)
    validation.warn_of_unknown()
    return config_infos(config["connector.class"], validation.keys.values(), validation.values, validation.unknown)


def config_key_info(key: ConfigKey) -> ConfigKeyInfo:
    """Return a definition for the REST API."""
    return ConfigKeyInfo(
        name=key.name,
        type=key.type,
        required=key.required,
        default_value=None if key.required else shown(key.default, key.type),
        importance=key.importance,
        documentation=key.documentation,
        group=key.group,
        width=key.width,
        display_name=key.display_name,
        dependents=tuple(key.dependents),
        order=key.order_in_group,
    )


def config_infos(
    name: str, keys: Iterable[ConfigKey], values: Mapping[str, ConfigValue], unknown: Mapping[str, str | None]
) -> ConfigInfos:
    """Return a configuration's definitions, each with the result of checking it, and its undefined properties.

    `error_count` is the number of messages, as in Connect.
    """
    configs = [ConfigInfo(config_key_info(key), _value_info(key, values[key.name])) for key in keys]
    groups = dict.fromkeys(info.definition.group for info in configs if info.definition and info.definition.group)
    return ConfigInfos(name, sum(len(info.value.errors) for info in configs), tuple(groups), tuple(configs), unknown)


def _value_info(key: ConfigKey, value: ConfigValue) -> ConfigValueInfo:
    return ConfigValueInfo(
        name=value.name,
        value=shown(value.value, key.type),
        recommended_values=tuple(str(shown(each, key.type)) for each in value.recommended_values),
        errors=tuple(value.errors),
        visible=value.visible,
    )


def shown(value: Any, kind: PropertyType) -> str | None:
    """Return a typed value as the text in a configuration; a password stays hidden."""
    if value is None:
        return None
    if kind is PropertyType.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return describe(value) if isinstance(value, type) else str(value)
