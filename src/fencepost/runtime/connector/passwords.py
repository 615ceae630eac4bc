"""The passwords in connector configurations: which properties hold them, and how requests and answers hide them.

The plugins' definitions and the properties' names determine which properties these are. In answers, passwords are
replaced by HIDDEN; HIDDEN in a request stands for the stored value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.plugin_calls import call_plugin
from fencepost.api.secrets import HIDDEN, hide, is_secret_name, secret_values
from fencepost.config.connector_config import plugin_aliases
from fencepost.config.plugins import CHAINS, ROLES, PluginKind, find_plugin, sources_of
from fencepost.config.worker_config import WorkerConfig

_CLASS: Final = "connector.class"
_REFERENCE: Final = re.compile(r"\$\{[^}:]*:[^}]*\}")
"""A placeholder of a config provider, which is not a secret."""
_URLS: Final = "registry.url"
_LOGIN_IN_URL: Final = re.compile(r"://[^/?#\s]*@")
"""A user and a password in an address. By default, Confluent's converters read their login from the address."""


def password_properties(worker: WorkerConfig, config: Mapping[str, str]) -> frozenset[str]:
    """Return the properties that hold passwords.

    These are the properties that a plugin defines as passwords, the properties whose names look like a password's, and
    addresses with a login. This may import plugins, which may take seconds.
    """
    defined = {name for found in _plugins(config) for name in _names(worker, config, *found)}
    with_login = {name for name, value in config.items() if name.endswith(_URLS) and _LOGIN_IN_URL.search(value)}
    return frozenset(defined | with_login | {name for name in config if is_secret_name(name)})


def passwords(worker: WorkerConfig, config: Mapping[str, str]) -> list[str]:
    """Return those values of a configuration that must not be shown."""
    names = password_properties(worker, config)
    return [value for name in names if name in config for value in secret_values(name, config[name])]


def shown_config(config: Mapping[str, str], passwords: Iterable[str]) -> dict[str, str]:
    """Return a connector's configuration without the values of the properties that hold passwords."""
    secret = set(passwords)
    return {name: _shown(value) if name in secret else value for name, value in config.items()}


def shown_task_config(
    task: Mapping[str, str], connector: Mapping[str, str], passwords: Iterable[str]
) -> dict[str, str]:
    """Return a task's configuration without its passwords, and without its connector's passwords in any property."""
    names = set(passwords)
    secrets = {
        value: HIDDEN
        for name in names
        if name in connector and _shown(connector[name]) == HIDDEN
        for value in secret_values(name, connector[name])
    }
    return {
        name: _shown(value) if name in names or is_secret_name(name) else hide(value, secrets)
        for name, value in task.items()
    }


def restored_config(config: Mapping[str, str], stored: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return a configuration from a request, with HIDDEN replaced by the stored passwords.

    Raises ConfigError for a password that is not stored.
    """
    known = {name: value for name, value in (stored or {}).items() if value is not None}
    missing = [name for name, value in config.items() if value == HIDDEN and name not in known]
    if missing:
        raise ConfigError(
            f"The value of {', '.join(missing)} is {HIDDEN}, which stands for the stored password, and there is "
            "none: set the password"
        )
    return {name: known[name] if value == HIDDEN else value for name, value in config.items()}


def check_passwords_stay_hidden(
    config: Mapping[str, str], kept: Iterable[str], passwords_before: Iterable[str], passwords_now: Iterable[str]
) -> None:
    """Raise ConfigError if a stored password would be shown, because its property is not a password's any more.

    `kept` are the properties whose values were taken from the stored configuration, not from the request.
    """
    secret = set(kept) & set(passwords_before) - set(passwords_now)
    bared = sorted(name for name in secret if name in config and _shown(config[name]) == HIDDEN)
    if bared:
        raise ConfigError(
            f"The stored configuration has a password in {', '.join(bared)}, which none of the plugins of the new one "
            "defines as a password, so that it would be shown: remove the property, or give its value"
        )


def _plugins(config: Mapping[str, str]) -> Iterator[tuple[PluginKind, str, str]]:
    """Yield the kind of each plugin, the property that names it, and the prefix of its own properties."""
    if _CLASS in config:
        yield PluginKind.CONNECTOR, _CLASS, ""
    for role, kind in ROLES.items():
        if role in config:
            yield kind, role, f"{role}."
    for what, kind in CHAINS.items():
        for alias in _aliases(what, config):
            yield kind, f"{what}.{alias}.type", f"{what}.{alias}."


def _aliases(what: str, config: Mapping[str, str]) -> list[str]:
    try:
        return [alias for alias in plugin_aliases(what, config) if f"{what}.{alias}.type" in config]
    except Exception:  # noqa: BLE001 - the check of the configuration says what is wrong with the list
        return []


def _names(worker: WorkerConfig, config: Mapping[str, str], kind: PluginKind, name: str, prefix: str) -> list[str]:
    try:
        sources = sources_of(config, worker.plugin_sources)
        version = config.get(f"{prefix}plugin.version")
        plugin = find_plugin(kind, config[name], property_name=name, sources=sources, version=version)
        return [prefix + password for password in _of_class(plugin)]  # type: ignore[arg-type]  # classes are hashable
    except Exception:  # noqa: BLE001 - the caller that runs the plugin reports its failure; the names suffice here
        return []


@lru_cache(maxsize=256)
def _of_class(plugin: type[Any]) -> tuple[str, ...]:
    keys = call_plugin(f"config() of {plugin.__name__}", lambda: plugin().config().keys())
    return tuple(name for name, key in keys.items() if key.type is ConfigDef.Type.PASSWORD)


def _shown(value: str) -> str:
    return value if not value or _REFERENCE.fullmatch(value) else HIDDEN
