"""Validates a connector's configuration. The result has every property that can be set, with its errors.

Besides the common properties and the connector's own, a configuration can set properties of its converters, transforms
and predicates, under prefixes: see `validation_sections`. Nothing is started and no broker is asked. But plugins are
imported, and the connector's code runs. A converter asks its schema registry, unless the configuration was accepted
before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from fencepost.api.config_def import ConfigDef, ConfigKey, ConfigValue
from fencepost.api.errors import ConfigError, describe_error
from fencepost.api.secrets import HIDDEN, hide, secret_values
from fencepost.api.source import SourceConnector
from fencepost.config.config_transformer import TransformedConfig
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.log_context import log_context
from fencepost.config.plugins import PluginKind, find_plugin, sources_of
from fencepost.config.preflight import merge, preflight, with_name
from fencepost.config.topic_creation import topic_creation_properties
from fencepost.config.unknown_properties import unknown_properties
from fencepost.config.worker_config import WorkerConfig
from fencepost.runtime.connector.client_properties import override_errors
from fencepost.runtime.connector.passwords import passwords
from fencepost.runtime.connector.pipeline_builder import pipeline_errors
from fencepost.runtime.connector.source_boundary import source_boundary_errors
from fencepost.runtime.connector.state_topics import dead_letter_topic_errors
from fencepost.runtime.connector.validation_sections import Section, sections_of, undefined

_log: Final = logging.getLogger(__name__)

_T = ConfigDef.Type
_CONNECTOR_CLASS: Final = "connector.class"
_CONNECTOR_VERSION: Final = "connector.plugin.version"
_TOPIC: Final = "topic"


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of validating a configuration, by property. Values keep the configuration's placeholders."""

    keys: Mapping[str, ConfigKey]
    values: Mapping[str, ConfigValue] = field(repr=False)
    unknown: Mapping[str, str | None] = field(default_factory=dict)
    """The undefined properties, each with the most similar defined property, if any."""

    @property
    def errors(self) -> list[str]:
        """All errors, with the names of their properties."""
        return [with_name(value.name, error) for value in self.values.values() for error in value.errors]

    @property
    def error_message(self) -> str:
        """One message with all errors."""
        return f"The configuration is invalid, with {len(self.errors)} error(s): {'; '.join(self.errors)}"

    def warn_of_unknown(self) -> None:
        """Log a warning for each undefined property."""
        connector = str(self.values["name"].value)
        with log_context(connector):
            for name, nearest in self.unknown.items():
                hint = "" if nearest is None else f": did you mean {nearest}?"
                _log.warning("Connector %s has an unknown property, %s%s", connector, name, hint)


def connector_class(worker: WorkerConfig, config: Mapping[str, str]) -> type[SourceConnector]:
    """Return the connector class in a configuration. Raises ConfigError if this worker does not have it."""
    name = config.get(_CONNECTOR_CLASS, "")
    if not name.strip():
        raise ConfigError(
            f"The property {_CONNECTOR_CLASS} is required: add '{_CONNECTOR_CLASS}=...' to the configuration",
            name=_CONNECTOR_CLASS,
        )
    return find_plugin(
        PluginKind.CONNECTOR,
        name,
        property_name=_CONNECTOR_CLASS,
        sources=worker.plugin_sources,
        version=config.get(_CONNECTOR_VERSION),
    )


def connector_defaults(worker: WorkerConfig, config: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults that a connector's class has for properties of every connector.

    The result is empty if this worker does not have the class: the worker that runs the connector reports that.
    """
    try:
        plugin = connector_class(worker, config)
    except ConfigError:
        return {}
    return {"transaction.boundary": str(plugin.default_transaction_boundary)}


def validate(worker: WorkerConfig, transformed: TransformedConfig, *, accepted: bool = False) -> Validation:
    """Check a connector's configuration as `worker` would run it.

    A configuration that was `accepted` before is not validated again by the connector itself (see `preflight`). Raises
    ConfigError if there is no connector class to validate it, or if code of a plugin fails. If the configuration was
    accepted before, other errors than ConfigError are raised unchanged, because they may be temporary.
    """
    # Tools identify a connector by this property. Its placeholders are resolved nowhere else, so they stay here, too.
    named = {
        _CONNECTOR_CLASS: transformed.given.get(_CONNECTOR_CLASS, transformed.properties.get(_CONNECTOR_CLASS, ""))
    }
    plugin = connector_class(worker, {**transformed.properties, **named})
    try:
        return _validated(worker, transformed, ConnectorInstance.of(plugin), accepted=accepted)
    except Exception as error:
        if accepted and not isinstance(error, ConfigError):
            raise
        secrets = passwords(worker, {**transformed.properties, **named})
        said = (
            f"The connector {named[_CONNECTOR_CLASS]} failed while it checked the configuration: "
            f"{_without(transformed.hidden(describe_error(error)), secrets)}"
        )
        # The traceback ends with the error's message, which may contain a password or a value from a config provider.
        shown = None if transformed.values or secrets else error
        _log.warning("%s", said, exc_info=shown)
        raise ConfigError(said, name=_CONNECTOR_CLASS) from shown


def _validated(
    worker: WorkerConfig, transformed: TransformedConfig, connector: ConnectorInstance, *, accepted: bool
) -> Validation:
    config, own = transformed.properties, connector.config()
    worker = replace(worker, plugin_sources=sources_of(config, worker.plugin_sources))
    sections = sections_of(worker, config, connector, own.keys(), connector_defaults(worker, config))
    keys = {name: key for section in reversed(sections) for name, key in section.keys.items()}
    values = _findings(worker, transformed, connector, sections, accepted=accepted)
    keys |= {name: undefined(name) for name in (*values, *topic_creation_properties(config)) if name not in keys}
    # If a connector has no definitions, any property may belong to it.
    unknown = _unknown(config, sections, keys, others_allowed=own.others_allowed or not own.keys())
    ordered = dict.fromkeys([*(name for section in sections for name in section.keys), *keys])
    keys = {name: keys[name] for name in ordered}
    secrets = [
        secret
        for name, key in keys.items()
        if key.type is _T.PASSWORD and name in config
        for secret in secret_values(name, config[name])
    ]
    shown = {name: _shown(key, values.get(name), transformed, secrets) for name, key in keys.items()}
    return Validation(keys, shown, unknown)


def _unknown(
    config: Mapping[str, str], sections: Sequence[Section], keys: Mapping[str, ConfigKey], *, others_allowed: bool
) -> dict[str, str | None]:
    prefixes = [section.undefined for section in sections if section.undefined]
    prefixes += [prefix for section in sections for prefix in section.open_prefixes]
    accepted = {name for section in sections for name in section.without_effect}
    known = accepted.union(keys, () if others_allowed else (_TOPIC,))
    return unknown_properties(config, known, open_prefixes=prefixes, only_alike=others_allowed)


def _without(text: str, secrets: Iterable[str]) -> str:
    return hide(text, dict.fromkeys(secrets, HIDDEN))


def _shown(
    key: ConfigKey, value: ConfigValue | None, transformed: TransformedConfig, secrets: Sequence[str]
) -> ConfigValue:
    """Return the part of a property that may be shown: no values from config providers, and no unknown class."""
    value = ConfigValue(key.name, transformed.properties.get(key.name)) if value is None else value
    value.errors = [_without(transformed.hidden(error), secrets) for error in value.errors]
    if key.type is _T.CLASS and value.errors:
        value.value = None
    elif key.name in transformed.given:
        value.value = transformed.given[key.name]
    return value


def _findings(
    worker: WorkerConfig,
    transformed: TransformedConfig,
    connector: ConnectorInstance,
    sections: Iterable[Section],
    *,
    accepted: bool,
) -> dict[str, ConfigValue]:
    config, unresolved = transformed.properties, {value.name for value in transformed.errors}
    checked = preflight(
        config,
        connector,
        support=worker.exactly_once_source_support,
        override_policy=worker.override_policy,
        allowed_paths=worker.allowed_paths,
        accepted=accepted,
    )
    checked += source_boundary_errors(connector_class(worker, config), config)
    values = merge([*(value for section in sections for value in section.found), *checked])
    for value in values:
        if value.name in unresolved:
            # A placeholder may not parse, for example as a number. That is not an error.
            value.errors.clear()
    values = merge([*values, *transformed.errors])
    if not any(value.errors for value in values):
        checked_config = ConnectorConfig.from_properties(config)
        known = None if accepted else partial(connector.known_schemas, config)
        more = [*pipeline_errors(worker, checked_config, known_schemas=known), *override_errors(worker, checked_config)]
        values = merge([*values, *more, *dead_letter_topic_errors(worker, checked_config)])
    return {value.name: value for value in values}
