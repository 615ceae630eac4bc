"""Replaces the placeholders `${provider:path:key}` and `${provider:key}` in properties, by config providers (KIP-297).

Values are looked up where they are used: when a worker, a connector or a task starts, and when a configuration is
validated. Stored, displayed and logged properties keep the placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigValue, parse_type
from fencepost.api.config_provider import ConfigProvider
from fencepost.api.errors import ConfigError, describe_error
from fencepost.api.plugin_calls import call_plugin, kind_of, refuse_answer
from fencepost.api.secrets import SECRETS
from fencepost.config.plugin_instances import new_plugin
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.config.plugins import PluginKind, find_plugin, use_plugin_path

PROVIDERS: Final = "config.providers"
PREFIX: Final = f"{PROVIDERS}."

_PLACEHOLDER: Final = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")

# In a message, values that are shorter than this are hidden only within quotes.
_SHORTEST_HIDDEN: Final = 4


def without_placeholders(json_text: str) -> str:
    """Return the same JSON with each `$` escaped.

    So a text that a connector found, such as the name of a file, is never resolved as a placeholder.
    """
    return json_text.replace("$", "\\u0024")


@dataclass(frozen=True, slots=True)
class TransformedConfig:
    """Properties with their placeholders resolved.

    If a placeholder cannot be resolved, its property keeps it, and `errors` has the reason.
    """

    properties: Mapping[str, str] = field(repr=False)
    given: Mapping[str, str] = field(default_factory=dict)
    """The properties that have placeholders, as they were written."""
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """For each property, the values of its placeholders."""
    errors: tuple[ConfigValue, ...] = ()

    def restored(self, task_config: Mapping[str, str]) -> dict[str, str]:
        """Return a configuration that was derived from these properties.

        Values of placeholders become placeholders again.
        """
        return {name: self._restored(name, value) for name, value in task_config.items()}

    def hidden(self, text: str) -> str:
        """Return a message in which placeholders replace their values."""
        for placeholder, value in self._longest_first():
            text = text.replace(repr(value), repr(placeholder))
            if len(value) >= _SHORTEST_HIDDEN:
                text = text.replace(value, placeholder)
        return text

    def required(self, *, where: str) -> Mapping[str, str]:
        """Return the properties. Raises ConfigError that names `where` for the first unresolved property."""
        for value in self.errors:
            raise ConfigError(f"{where}: {value.errors[0]}", name=value.name)
        return self.properties

    def _restored(self, name: str, value: str) -> str:
        if name not in self.given or value == self.properties[name]:
            return self.given.get(name, value)
        # A task's value may be only a part of the connector's value, such as one of several tables, or a longer value,
        # such as the connector's URL with the task's database.
        placeholders = {secret: placeholder for placeholder, secret in self.values[name].items() if secret}
        if not placeholders:
            return value
        # All values are replaced in one pass, because an inserted placeholder may contain the value of another one.
        secrets = sorted(placeholders, key=len, reverse=True)
        return re.sub("|".join(map(re.escape, secrets)), lambda match: placeholders[match[0]], value)

    def _longest_first(self) -> list[tuple[str, str]]:
        pairs = {pair for values in self.values.values() for pair in values.items()}
        return sorted(pairs, key=lambda pair: len(pair[1]), reverse=True)


class ConfigTransformer:
    """Resolves placeholders by the config providers of a worker. Thread-safe if the providers are."""

    def __init__(self, providers: Mapping[str, ConfigProvider]) -> None:
        self._providers = providers

    @classmethod
    def from_properties(cls, worker: Mapping[str, str], *, where: str) -> ConfigTransformer:
        """Set up the providers that a worker's properties name. Raises ConfigError that names `where`."""
        names = [name for name in parse_type(PROVIDERS, worker.get(PROVIDERS, ""), ConfigDef.Type.LIST) if name]
        try:
            return cls({name: _provider(name, worker) for name in names})
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}", name=error.name) from error

    def transform(self, config: Mapping[str, str]) -> TransformedConfig:
        """Resolve the placeholders of a configuration. Each file, or other source of a provider, is read once."""
        given = {name: text for name, text in config.items() if _PLACEHOLDER.search(text)}
        if not given:
            return TransformedConfig(config)
        lookup = _Lookup(self._providers, [place for text in given.values() for place in _places(text)])
        properties, errors = dict(config), []
        for name, text in given.items():
            wrong = list(dict.fromkeys(lookup.problems(name, text)))
            if wrong:
                errors.append(ConfigValue(name, errors=wrong))
            else:
                properties[name] = _PLACEHOLDER.sub(lambda match: lookup.values[match[0]], text)
        values = {
            name: {place.text: lookup.values[place.text] for place in _places(text) if place.text in lookup.values}
            for name, text in given.items()
        }
        SECRETS.learn({value: place for known in values.values() for place, value in known.items()})
        return TransformedConfig(properties, given, values, tuple(errors))


@dataclass(frozen=True, slots=True)
class _Place:
    """A placeholder with its parts."""

    text: str
    provider: str
    path: str
    key: str


class _Lookup:
    """The values of placeholders, and the reasons for missing ones."""

    def __init__(self, providers: Mapping[str, ConfigProvider], places: Collection[_Place]) -> None:
        self.values: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._known = providers
        sources: dict[tuple[str, str], list[_Place]] = {}
        for place in places:
            sources.setdefault((place.provider, place.path), []).append(place)
        for (provider, path), wanted in sources.items():
            self._look_up(provider, path, wanted)

    def problems(self, name: str, text: str) -> Iterator[str]:
        """Yield the errors of the placeholders in a property."""
        for place in _places(text):
            if place.text in self._reasons:
                yield f"The property {name} holds {place.text}, which has no value: {self._reasons[place.text]}"

    def _look_up(self, name: str, path: str, places: Collection[_Place]) -> None:
        provider = self._known.get(name)
        if provider is None:
            reason = f"the worker has no config provider named {name!r}; its {PROVIDERS} are {self._names()}"
            self._reasons.update(dict.fromkeys((place.text for place in places), reason))
            return
        try:
            found = self._asked(name, provider, path, {place.key for place in places})
        except Exception as error:  # noqa: BLE001 - a provider's code may raise anything; the user sees it on the property
            self._reasons.update(dict.fromkeys((place.text for place in places), describe_error(error)))
            return
        for place in places:
            if place.key in found:
                self.values[place.text] = found[place.key]
            else:
                self._reasons[place.text] = f"the config provider {name} has no {place.key!r} that may be read"

    @staticmethod
    def _asked(name: str, provider: ConfigProvider, path: str, keys: Collection[str]) -> Mapping[str, str]:
        what = f"get() of the config provider {name}"
        answer: Any = call_plugin(what, provider.get, path, keys)
        if not isinstance(answer, Mapping):
            refuse_answer(what, provider.get, kind_of(answer), "a dict of str")
        found = call_plugin(what, dict, answer)
        for key, value in found.items():
            if not isinstance(value, str):
                refuse_answer(what, provider.get, f"a dict with {kind_of(value)} for {key!r}", "a dict of str")
        return found

    def _names(self) -> str:
        return ", ".join(sorted(self._known)) or "none"


def resolve_worker_properties(properties: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Return a worker's properties with their placeholders replaced, except the providers' own properties.

    Raises ConfigError with `where` for a provider that cannot be set up, and for placeholders without a value. Puts the
    worker's `plugin.path` on the import path, where providers may be.
    """
    own = {name: text for name, text in properties.items() if name.startswith(PREFIX) or name == PROVIDERS}
    use_plugin_path(properties.get("plugin.path", ""))
    transformer = ConfigTransformer.from_properties(own, where=where)
    others = {name: text for name, text in properties.items() if name not in own}
    return {**properties, **transformer.transform(others).required(where=where)}


def placeholder_files(properties: Mapping[str, str]) -> list[str]:
    """Return the files that the placeholders of a worker's properties may name, as `${file:/path:key}` does."""
    places = [place for text in properties.values() for place in _places(text) if place.path]
    return [str(Path(place.path, place.key)) if Path(place.path).is_dir() else place.path for place in places]


def _places(text: str) -> Iterator[_Place]:
    for match in _PLACEHOLDER.finditer(text):
        yield _Place(match[0], match[1], match[2] or "", match[3])


def _provider(name: str, worker: Mapping[str, str]) -> ConfigProvider:
    class_property, param = f"{PREFIX}{name}.class", f"{PREFIX}{name}.param."
    if not worker.get(class_property, "").strip():
        raise ConfigError(
            f"{PROVIDERS} names {name}, but {class_property} is missing: add it, for example "
            f"{class_property}=org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            name=class_property,
        )
    plugin = find_plugin(
        PluginKind.CONFIG_PROVIDER, worker[class_property], property_name=class_property, sources=ANY_MODULE
    )
    params = {key.removeprefix(param): text for key, text in worker.items() if key.startswith(param)}
    try:
        provider: ConfigProvider = new_plugin(PluginKind.CONFIG_PROVIDER, plugin)
        call_plugin(f"configure() of the config provider {name}", provider.configure, params)
    except ConfigError as error:
        raise ConfigError(f"{param}*: {error}", name=f"{param}{error.name}" if error.name else None) from error
    except Exception as error:
        raise ConfigError(
            f"The config provider {name} cannot be used: {describe_error(error)}", name=class_property
        ) from error
    return provider
