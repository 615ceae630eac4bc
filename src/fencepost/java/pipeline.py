"""The converters of a Java connector, which run in its JVM: they need Java's schemas.

Connect's own converters are there. Everything else is refused with the reason, not left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fencepost.api.errors import ConfigError
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.error_handling import Tolerance
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.plugins import PluginKind, plugin_entry_points

_CONNECT: Final = "org.apache.kafka.connect."
_ROLES: Final = {
    "key.converter": PluginKind.CONVERTER,
    "value.converter": PluginKind.CONVERTER,
    "header.converter": PluginKind.HEADER_CONVERTER,
}


@dataclass(frozen=True, slots=True)
class JavaTaskSetting:
    """What a Java task needs besides its configuration: its number, and its converters' properties, as Connect's."""

    task: ConnectorTaskId
    converters: Mapping[str, str] = field(repr=False)


def java_converters(connector: ConnectorConfig, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the converters in the JVM; `defaults` are the worker's.

    Raises ConfigError, which names the property, for everything that a Java connector cannot have yet.
    """
    whose = f"The connector {connector.name} is a Java connector"
    if connector.transforms:
        raise ConfigError(
            f"{whose}, and transforms of its records are not supported yet: remove the property transforms",
            name="transforms",
        )
    if connector.errors.tolerance is not Tolerance.NONE:
        raise ConfigError(
            f"{whose}, and its records cannot be skipped yet: remove errors.tolerance", name="errors.tolerance"
        )
    if connector.errors.retry_timeout_ms:
        raise ConfigError(
            f"{whose}, and its conversions cannot be repeated yet: remove errors.retry.timeout",
            name="errors.retry.timeout",
        )
    found: dict[str, str] = {}
    for role, kind in _ROLES.items():
        spec = connector.converter(role, defaults)
        found[role] = _java_name(kind, role, spec.type, whose)
        found |= {f"{role}.{name}": value for name, value in spec.properties.items()}
    return found


def _java_name(kind: PluginKind, role: str, name: str, whose: str) -> str:
    """The class of Connect's that a name stands for."""
    entries = {entry.name: entry.value for entry in plugin_entry_points(kind)}
    known = {entry: entries[entry] for entry in entries if entry.startswith(_CONNECT)}
    for java_class, value in known.items():
        if name.strip() in (java_class, value.replace(":", ".")) or entries.get(name.strip()) == value:
            return java_class
    raise ConfigError(
        f"{whose}, whose converters run in its JVM, and the property {role} names {name}, which is not supported there yet: "
        f"set {role} of the connector to one of {', '.join(sorted(known))}",
        name=role,
    )
