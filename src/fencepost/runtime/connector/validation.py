"""Validates a connector's configuration: every property that it has or could have, with its errors.

In addition to the common properties and the connector's own, a configuration can set properties of its converters,
transforms and predicates, under prefixes; each has its definitions here. Nothing is started and no broker is asked;
plugins are imported, and the connector's code runs. A converter asks its schema registry, unless the configuration was
accepted before.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigKey, ConfigValue
from fencepost.api.errors import ConfigError, RetriableError, describe_error
from fencepost.api.plugin_calls import call_plugin
from fencepost.api.secrets import HIDDEN, hide, is_secret_name, secret_values
from fencepost.api.source import SourceConnector
from fencepost.config.client_overrides import ClientKind
from fencepost.config.config_transformer import TransformedConfig
from fencepost.config.connector_config import ConnectorConfig, below, connector_config_def, plugin_aliases
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.java_plugins import JavaClass
from fencepost.config.java_properties import open_prefixes, refusals, takes_any_property, without_effect
from fencepost.config.log_context import log_context
from fencepost.config.plugin_instances import plugin_definitions
from fencepost.config.plugins import PluginKind, find_plugin, plugin_version, sources_of
from fencepost.config.preflight import merge, preflight
from fencepost.config.restart_config import define_restarts
from fencepost.config.topic_creation import PREFIX as TOPIC_CREATION
from fencepost.config.topic_creation import topic_creation_properties
from fencepost.config.unknown_properties import unknown_properties
from fencepost.config.validators import not_blank
from fencepost.config.worker_config import WorkerConfig
from fencepost.kafka.config.client_definitions import client_definition
from fencepost.runtime.connector.client_properties import override_errors
from fencepost.runtime.connector.passwords import passwords
from fencepost.runtime.connector.pipeline_builder import pipeline_errors
from fencepost.runtime.connector.plugin_versions import CHAINS, ROLES, VERSION, version_errors
from fencepost.runtime.connector.state_topics import dead_letter_topic_errors

_log: Final = logging.getLogger(__name__)

_T = ConfigDef.Type
_I = ConfigDef.Importance
_W = ConfigDef.Width
_CONNECTOR_CLASS: Final = "connector.class"
_TOPIC: Final = "topic"
_OF_WORKER: Final = tuple(define_restarts(ConfigDef(), whose="").keys())
_OVERRIDES: Final = {f"{kind}.override.": kind for kind in ClientKind}


@dataclass(slots=True)
class _Section:
    """Some definitions, and findings for their properties beyond the definitions' own checks."""

    keys: Mapping[str, ConfigKey]
    found: list[ConfigValue] = field(default_factory=list)
    undefined: str | None = None
    """The prefix below which undefined properties are allowed: the plugin's own, if it defines none."""
    without_effect: Collection[str] = ()
    """Properties that are accepted though they change nothing."""
    open_prefixes: Collection[str] = ()
    """Prefixes below which the plugin defines properties of any name."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of validating a configuration, by property; values keep the configuration's placeholders."""

    keys: Mapping[str, ConfigKey]
    values: Mapping[str, ConfigValue] = field(repr=False)
    unknown: Mapping[str, str | None] = field(default_factory=dict)
    """Undefined properties, each with the most similar defined one, if any."""

    @property
    def errors(self) -> list[str]:
        """All errors."""
        return [error for value in self.values.values() for error in value.errors]

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
    return find_plugin(PluginKind.CONNECTOR, name, property_name=_CONNECTOR_CLASS, sources=worker.plugin_sources)


def connector_defaults(worker: WorkerConfig, config: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults of a connector's class for properties that every connector has.

    None for a class that this worker lacks: the worker that runs it reports that.
    """
    try:
        plugin = connector_class(worker, config)
    except ConfigError:
        return {}
    return {"transaction.boundary": str(plugin.default_transaction_boundary)}


def validate(worker: WorkerConfig, transformed: TransformedConfig, *, accepted: bool = False) -> Validation:
    """Check a connector's configuration as a worker of this configuration would run it.

    A configuration that was `accepted` before is not validated by the connector itself again (see `preflight`). Raises
    ConfigError if there is no connector class to validate it, or if code of a plugin fails; a RetriableError for an
    accepted configuration is raised unchanged.
    """
    # Tools identify a connector by this property, and it is resolved nowhere else.
    named = {
        _CONNECTOR_CLASS: transformed.given.get(_CONNECTOR_CLASS, transformed.properties.get(_CONNECTOR_CLASS, ""))
    }
    plugin = connector_class(worker, named)
    try:
        return _validated(worker, transformed, ConnectorInstance.of(plugin), accepted=accepted)
    except Exception as error:
        if accepted and isinstance(error, RetriableError):
            raise
        secrets = passwords(worker, {**transformed.properties, **named})
        said = (
            f"The connector {named[_CONNECTOR_CLASS]} failed while it checked the configuration: "
            f"{_without(transformed.hidden(describe_error(error)), secrets)}"
        )
        # A traceback ends with the error's message, which may contain a config provider's value or a password.
        shown = None if transformed.values or secrets else error
        _log.warning("%s", said, exc_info=shown)
        raise ConfigError(said, name=_CONNECTOR_CLASS) from shown


def _validated(
    worker: WorkerConfig, transformed: TransformedConfig, connector: ConnectorInstance, *, accepted: bool
) -> Validation:
    config, own = transformed.properties, connector.config()
    worker = replace(worker, plugin_sources=sources_of(config[_CONNECTOR_CLASS], worker.plugin_sources))
    sections = [
        _common(worker, config, connector),
        _Section(own.keys()),
        *(_converter(worker, role, config) for role in ROLES if role in config),
        *(_chained(worker, what, alias, config) for what in CHAINS for alias in _aliases(what, config)),
        _Section(dict(_overrides(config))),
    ]
    keys = {name: key for section in reversed(sections) for name, key in section.keys.items()}
    values = _findings(worker, transformed, connector, sections, accepted=accepted)
    keys |= {name: _other(name) for name in (*values, *topic_creation_properties(config)) if name not in keys}
    # A connector without definitions may have any properties.
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
    config: Mapping[str, str], sections: Sequence[_Section], keys: Mapping[str, ConfigKey], *, others_allowed: bool
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
    """The part of a property that may be shown: no value of a config provider, and no unknown class."""
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
    sections: Iterable[_Section],
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
    values = merge([*(value for section in sections for value in section.found), *checked])
    for value in values:
        if value.name in unresolved:
            # A placeholder need not parse, as a number for example.
            value.errors.clear()
    values = merge([*values, *transformed.errors])
    if not any(value.errors for value in values):
        checked_config = ConnectorConfig.from_properties(config)
        known = None if accepted else partial(connector.known_schemas, config)
        more = [*pipeline_errors(worker, checked_config, known_schemas=known), *override_errors(worker, checked_config)]
        values = merge([*values, *more, *dead_letter_topic_errors(worker, checked_config)])
    return {value.name: value for value in values}


def _common(worker: WorkerConfig, config: Mapping[str, str], connector: ConnectorInstance) -> _Section:
    """The common properties of connectors, with this worker's defaults."""
    defaults: dict[str, str | None] = {f"connector.{VERSION}": connector.version()}
    defaults |= connector_defaults(worker, config)
    defaults |= {name: worker.properties[name] for name in _OF_WORKER if name in worker.properties}
    found = version_errors(f"connector.{VERSION}", config, connector.version())
    for role, kind in ROLES.items():
        defaults[role] = worker.properties[role]
        name = f"{role}.{VERSION}"
        try:
            plugin = find_plugin(
                kind, config.get(role, worker.properties[role]), property_name=role, sources=worker.plugin_sources
            )
            installed = plugin_version(plugin)
        except ConfigError as error:
            found.append(ConfigValue(role, errors=[str(error)]))
            found.append(ConfigValue(name, config.get(name), visible=False))
        else:
            defaults[name] = installed
            found += version_errors(name, config, installed)
    definitions = _copied(connector_config_def(), defaults=defaults)
    return _Section(definitions.keys(), [*found, *definitions.validate(config)])


def _converter(worker: WorkerConfig, role: str, config: Mapping[str, str]) -> _Section:
    """A converter's own properties, empty if the converter does not exist."""
    try:
        plugin = find_plugin(ROLES[role], config[role], property_name=role, sources=worker.plugin_sources)
    except ConfigError:
        # Reported on the property that names it.
        return _Section({})
    prefix = f"{role}."
    definitions = _copied(plugin_definitions(ROLES[role], plugin), prefix=prefix)
    found = [*_checked(definitions, config, plugin, prefix), *_refused(plugin, prefix, config)]
    return _of_plugin(definitions, found, plugin, prefix, definitions.keys())


def _of_plugin(
    definitions: ConfigDef, found: list[ConfigValue], plugin: type[Any], prefix: str, own: Collection[str]
) -> _Section:
    accepted = [prefix + name for name in without_effect(plugin)]
    free = [prefix + name for name in open_prefixes(plugin)]
    return _Section(definitions.keys(), found, prefix if takes_any_property(plugin, own) else None, accepted, free)


def _refused(plugin: type[Any], prefix: str, config: Mapping[str, str]) -> list[ConfigValue]:
    """The properties that the plugin's Java class has, and that it does not do."""
    given = below(config, prefix)
    return [
        ConfigValue(prefix + name, given[name], errors=[message]) for name, message in refusals(plugin, given).items()
    ]


def _chained(worker: WorkerConfig, what: str, alias: str, config: Mapping[str, str]) -> _Section:
    """The properties of a transform or predicate."""
    prefix, group = f"{what}.{alias}.", f"{what.capitalize()}: {alias}"
    definitions = ConfigDef().define(
        f"{prefix}type", _T.CLASS, ConfigDef.NO_DEFAULT, _I.HIGH, "The class or alias of the plugin.",
        validator=not_blank, group=group, order_in_group=0, width=_W.LONG,
    )  # fmt: skip
    found: list[ConfigValue] = []
    plugin, installed = None, None
    if config.get(f"{prefix}type", "").strip():
        try:
            plugin = find_plugin(
                CHAINS[what],
                config[f"{prefix}type"],
                property_name=f"{prefix}type",
                sources=worker.plugin_sources,
            )
        except ConfigError as error:
            found.append(ConfigValue(f"{prefix}type", errors=[str(error)]))
        else:
            installed = plugin_version(plugin)
            found += version_errors(prefix + VERSION, config, installed)
    definitions.define(
        prefix + VERSION, _T.STRING, installed, _I.HIGH,
        "The version of the plugin, or a range such as [1.2,2.0), which must have the installed one. Unset: any.",
        group=group, order_in_group=1, width=_W.LONG,
    )  # fmt: skip
    own = () if plugin is None else _define_own(definitions, plugin, what, prefix, group)
    found += _checked(definitions, config, plugin, prefix)
    if plugin is None:
        return _Section(definitions.keys(), found, prefix)
    return _of_plugin(definitions, [*found, *_refused(plugin, prefix, config)], plugin, prefix, own)


def _checked(
    definitions: ConfigDef, config: Mapping[str, str], plugin: type[Any] | None, prefix: str
) -> list[ConfigValue]:
    """Validate with a plugin's definitions. Their validators are the plugin's code, here or in Java."""
    name = "" if plugin is None else f" of {plugin.__name__}"
    found = call_plugin(f"A validator in the config(){name}", definitions.validate, config)
    if plugin is None or not issubclass(plugin, JavaClass):
        return found
    in_java = [replace(value, name=prefix + value.name) for value in plugin.java_findings(below(config, prefix))]
    told = {value.name for value in in_java}
    return [*in_java, *(value for value in found if value.name not in told)]


def _define_own(definitions: ConfigDef, plugin: type[Any], what: str, prefix: str, group: str) -> Collection[str]:
    """Add a plugin's own properties, which are returned, and the common ones of transforms."""
    own = _copied(plugin_definitions(CHAINS[what], plugin), prefix=prefix).keys()
    for key in own.values():
        _define(definitions, key, group=group, order=len(definitions.keys()))
    if what == "transforms":
        definitions.define(
            f"{prefix}negate", _T.BOOLEAN, False, _I.MEDIUM,
            "Whether the transform applies to the records for which the predicate does not hold.",
            group=group, order_in_group=len(definitions.keys()),
        ).define(
            f"{prefix}predicate", _T.STRING, None, _I.MEDIUM,
            "The alias of the predicate that says which records the transform applies to. Unset: to all.",
            group=group, order_in_group=len(definitions.keys()),
        )  # fmt: skip
    return own.keys()


def _copied(definitions: ConfigDef, *, prefix: str = "", defaults: Mapping[str, str | None] | None = None) -> ConfigDef:
    """Return the definitions under a prefix, some with other defaults."""
    copy = ConfigDef()
    for key in definitions.keys().values():
        _define(copy, key, name=prefix + key.name, default=(defaults or {}).get(key.name, key.default))
    return copy


def _define(
    definitions: ConfigDef,
    key: ConfigKey,
    *,
    name: str | None = None,
    default: Any = None,
    group: str | None = None,
    order: int | None = None,
) -> None:
    definitions.define(
        name or key.name,
        key.type,
        key.default if default is None else default,
        key.importance,
        key.documentation,
        validator=key.validator,
        group=group or key.group,
        order_in_group=key.order_in_group if order is None else order,
        width=key.width,
        display_name=key.display_name,
        dependents=key.dependents,
    )


def _aliases(what: str, config: Mapping[str, str]) -> list[str]:
    try:
        return plugin_aliases(what, config)
    except ConfigError:
        # The preflight check reports this error, on the property with the list of aliases.
        return []


def _overrides(config: Mapping[str, str]) -> Iterator[tuple[str, ConfigKey]]:
    for name in config:
        for prefix, kind in _OVERRIDES.items():
            if name.startswith(prefix):
                defined = client_definition(kind, name.removeprefix(prefix))
                yield name, _other(name) if defined is None else replace(defined, name=name)


def _other(name: str) -> ConfigKey:
    """The definition of a property that is only known by its prefix."""
    secret = is_secret_name(name)
    group = "Topic Creation" if name.startswith(TOPIC_CREATION) else None
    kind = _T.PASSWORD if secret else _T.STRING
    return ConfigKey(name, kind, None, _I.LOW, group=group, display_name=name)
