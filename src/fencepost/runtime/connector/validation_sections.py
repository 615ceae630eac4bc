"""The sections of a connector's configuration: the definitions of the connector, and of each plugin in its pipeline."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigKey, ConfigValue
from fencepost.api.errors import ConfigError
from fencepost.api.plugin_calls import call_plugin
from fencepost.api.secrets import is_secret_name
from fencepost.config.client_overrides import ClientKind
from fencepost.config.connector_config import connector_config_def, plugin_aliases
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.java_plugins import JavaClass
from fencepost.config.java_properties import open_prefixes, refusals, takes_any_property, without_effect
from fencepost.config.plugin_instances import VERSION, plugin_definitions
from fencepost.config.plugins import CHAINS, ROLES, PluginKind, find_plugin, installed_versions, plugin_version
from fencepost.config.properties import below
from fencepost.config.restart_config import define_restarts
from fencepost.config.topic_creation import PREFIX as TOPIC_CREATION
from fencepost.config.validators import not_blank
from fencepost.config.worker_config import WorkerConfig
from fencepost.kafka.config.client_definitions import client_definition
from fencepost.runtime.connector.plugin_versions import version_finding

_T = ConfigDef.Type
_I = ConfigDef.Importance
_W = ConfigDef.Width
_OF_WORKER: Final = tuple(define_restarts(ConfigDef(), whose="").keys())
_OVERRIDES: Final = {f"{kind}.override.": kind for kind in ClientKind}


@dataclass(slots=True)
class Section:
    """The definitions of one plugin, or of one kind of property.

    `found` are errors that the definitions do not detect.
    """

    keys: Mapping[str, ConfigKey]
    found: list[ConfigValue] = field(default_factory=list)
    undefined: str | None = None
    """The prefix under which any property is allowed, because it belongs to a plugin without definitions."""
    without_effect: Collection[str] = ()
    """Properties that are accepted although they have no effect."""
    open_prefixes: Collection[str] = ()
    """Prefixes under which properties of the plugin may have any name."""


def sections_of(
    worker: WorkerConfig,
    config: Mapping[str, str],
    connector: ConnectorInstance,
    own: Mapping[str, ConfigKey],
    defaults: Mapping[str, str],
) -> list[Section]:
    """Return the sections of a configuration.

    `own` are the connector's definitions, and `defaults` its defaults for properties that every connector has. Raises
    PluginError for a plugin whose code fails.
    """
    return [
        _common(worker, config, connector, defaults),
        Section(own),
        *(_converter(worker, role, config) for role in ROLES if role in config),
        *(_chained(worker, what, alias, config) for what in CHAINS for alias in _aliases(what, config)),
        Section(dict(_overrides(config))),
    ]


def _common(
    worker: WorkerConfig, config: Mapping[str, str], connector: ConnectorInstance, own: Mapping[str, str]
) -> Section:
    """Return the common properties of connectors, with this worker's defaults, and the connector's `own` properties."""
    defaults: dict[str, str | None] = {f"connector.{VERSION}": connector.version()}
    defaults |= own
    defaults |= {name: worker.properties[name] for name in _OF_WORKER if name in worker.properties}
    name = f"connector.{VERSION}"
    several = installed_versions(PluginKind.CONNECTOR, config["connector.class"], worker.plugin_sources)
    found = [version_finding(name, config, connector.version(), several)]
    for role, kind in ROLES.items():
        defaults[role] = worker.properties[role]
        name = f"{role}.{VERSION}"
        owner = config if role in config else worker.properties
        try:
            plugin = find_plugin(
                kind, owner[role], property_name=role, sources=worker.plugin_sources, version=owner.get(name)
            )
            installed = plugin_version(plugin)
            several = installed_versions(kind, owner[role], worker.plugin_sources)
        except ConfigError as error:
            found.append(ConfigValue(role, errors=[str(error)]))
            found.append(ConfigValue(name, config.get(name), visible=False))
        else:
            defaults[name] = installed
            found.append(version_finding(name, config, installed, several))
    definitions = _copied(connector_config_def(), defaults=defaults)
    return Section(definitions.keys(), [*found, *definitions.validate(config)])


def _converter(worker: WorkerConfig, role: str, config: Mapping[str, str]) -> Section:
    """Return a converter's own properties. The section is empty if the converter does not exist."""
    try:
        plugin = find_plugin(
            ROLES[role],
            config[role],
            property_name=role,
            sources=worker.plugin_sources,
            version=config.get(f"{role}.{VERSION}"),
        )
    except ConfigError:
        # This error is reported elsewhere, for the property that names the converter.
        return Section({})
    prefix = f"{role}."
    definitions = _copied(plugin_definitions(ROLES[role], plugin), prefix=prefix)
    found = [*_checked(definitions, config, plugin, prefix), *_refused(plugin, prefix, config)]
    return _of_plugin(definitions, found, plugin, prefix, definitions.keys())


def _of_plugin(
    definitions: ConfigDef, found: list[ConfigValue], plugin: type[Any], prefix: str, own: Collection[str]
) -> Section:
    accepted = [prefix + name for name in without_effect(plugin)]
    free = [prefix + name for name in open_prefixes(plugin)]
    return Section(definitions.keys(), found, prefix if takes_any_property(plugin, own) else None, accepted, free)


def _refused(plugin: type[Any], prefix: str, config: Mapping[str, str]) -> list[ConfigValue]:
    """Return errors for given properties that the plugin's Java class supports but the plugin does not."""
    given = below(config, prefix)
    return [
        ConfigValue(prefix + name, given[name], errors=[message]) for name, message in refusals(plugin, given).items()
    ]


def _chained(worker: WorkerConfig, what: str, alias: str, config: Mapping[str, str]) -> Section:
    """Return the properties of a transform or predicate."""
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
                version=config.get(prefix + VERSION),
            )
            several = installed_versions(CHAINS[what], config[f"{prefix}type"], worker.plugin_sources)
        except ConfigError as error:
            found.append(ConfigValue(f"{prefix}type", errors=[str(error)]))
        else:
            installed = plugin_version(plugin)
            found.append(version_finding(prefix + VERSION, config, installed, several))
    definitions.define(
        prefix + VERSION, _T.STRING, installed, _I.HIGH,
        "The version of the plugin, or a range such as [1.2,2.0), which must have the installed one. Unset: any.",
        group=group, order_in_group=1, width=_W.LONG,
    )  # fmt: skip
    own = () if plugin is None else _define_own(definitions, plugin, what, prefix, group)
    found += _checked(definitions, config, plugin, prefix)
    if plugin is None:
        return Section(definitions.keys(), found, prefix)
    return _of_plugin(definitions, [*found, *_refused(plugin, prefix, config)], plugin, prefix, own)


def _checked(
    definitions: ConfigDef, config: Mapping[str, str], plugin: type[Any] | None, prefix: str
) -> list[ConfigValue]:
    """Validate with a plugin's definitions. Their validators are the plugin's own code, in Python or Java."""
    name = "" if plugin is None else f" of {plugin.__name__}"
    found = call_plugin(f"A validator in the config(){name}", definitions.validate, config)
    if plugin is None or not issubclass(plugin, JavaClass):
        return found
    in_java = [replace(value, name=prefix + value.name) for value in plugin.java_findings(below(config, prefix))]
    names_in_java = {value.name for value in in_java}
    return [*in_java, *(value for value in found if value.name not in names_in_java)]


def _define_own(definitions: ConfigDef, plugin: type[Any], what: str, prefix: str, group: str) -> Collection[str]:
    """Add a plugin's own properties and the common ones of transforms. Returns the plugin's own definitions."""
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
    """Return definitions with `prefix` before their names. `defaults` replace some of their default values."""
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
        # The preflight check reports this error, for the property with the list of aliases.
        return []


def _overrides(config: Mapping[str, str]) -> Iterator[tuple[str, ConfigKey]]:
    for name in config:
        for prefix, kind in _OVERRIDES.items():
            if name.startswith(prefix):
                defined = client_definition(kind, name.removeprefix(prefix))
                yield name, undefined(name) if defined is None else replace(defined, name=name)


def undefined(name: str) -> ConfigKey:
    """Return a definition for a property with an unknown name and a known prefix."""
    secret = is_secret_name(name)
    group = "Topic Creation" if name.startswith(TOPIC_CREATION) else None
    kind = _T.PASSWORD if secret else _T.STRING
    return ConfigKey(name, kind, None, _I.LOW, group=group, display_name=name)
