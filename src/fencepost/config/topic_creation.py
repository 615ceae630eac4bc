"""Topics that a connector creates with its own settings (KIP-158, `topic.creation.*`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigValue, parse_type
from fencepost.api.errors import ConfigError
from fencepost.config.validators import python_regex, replication_factor

PREFIX: Final = "topic.creation."
_GROUPS: Final = "topic.creation.groups"
_DEFAULT: Final = "default"
_OWN: Final = ("include", "exclude", "partitions", "replication.factor")


@dataclass(frozen=True, slots=True)
class TopicCreationGroup:
    """How to create the topics of a group: partitions and replicas (-1: the broker's default), and topic settings."""

    name: str
    include: Sequence[re.Pattern[str]]
    exclude: Sequence[re.Pattern[str]]
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        """Return whether a topic belongs to this group."""
        included = any(pattern.fullmatch(topic) for pattern in self.include)
        return included and not any(pattern.fullmatch(topic) for pattern in self.exclude)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """A connector's groups of topics, in order. The last one is the default group, which includes every topic."""

    groups: Sequence[TopicCreationGroup]

    def group_of(self, topic: str) -> TopicCreationGroup:
        """Return the first group that a topic belongs to."""
        return next(group for group in self.groups if group.matches(topic))


def topic_creation(config: Mapping[str, str]) -> TopicCreation | None:
    """Return a connector's topic creation settings; None if it has none, so that the broker creates topics.

    Raises ConfigError that names the property.
    """
    if not any(name.startswith(f"{PREFIX}{_DEFAULT}.") for name in config):
        if any(name.startswith(PREFIX) for name in config):
            raise ConfigError(
                "topic.creation properties need topic.creation.default.partitions and "
                "topic.creation.default.replication.factor: add both",
                name=f"{PREFIX}{_DEFAULT}.partitions",
            )
        return None
    default = _group(config, _DEFAULT, fallback=None)
    aliases = _aliases(config)
    if len(set(aliases)) < len(aliases):
        raise ConfigError(f"The property {_GROUPS} names a group twice: {config[_GROUPS]}", name=_GROUPS)
    return TopicCreation([*(_group(config, alias, fallback=default) for alias in aliases), default])


def topic_creation_properties(config: Mapping[str, str]) -> list[str]:
    """Return the names of the properties of all groups: the listed groups, and the default group."""
    prefixes = tuple(f"{PREFIX}{alias}." for alias in [*_aliases(config), _DEFAULT])
    return [name for name in config if name.startswith(prefixes)]


def _aliases(config: Mapping[str, str]) -> list[str]:
    listed: list[str] = parse_type(_GROUPS, config.get(_GROUPS, ""), ConfigDef.Type.LIST)
    return [alias for alias in listed if alias not in ("", _DEFAULT)]


def topic_creation_errors(config: Mapping[str, str]) -> list[ConfigValue]:
    """Return the first error in the `topic.creation` properties, on the property that causes it."""
    try:
        topic_creation(config)
    except ConfigError as error:
        return [ConfigValue(error.name or _GROUPS, errors=[str(error)])]
    return []


def _group(config: Mapping[str, str], alias: str, *, fallback: TopicCreationGroup | None) -> TopicCreationGroup:
    prefix = f"{PREFIX}{alias}."
    given = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
    return TopicCreationGroup(
        name=alias,
        include=_patterns(prefix, "include", given) if fallback else [re.compile(".*", re.DOTALL)],
        exclude=_patterns(prefix, "exclude", given) if fallback else [],
        partitions=_number(prefix, "partitions", given, fallback.partitions if fallback else None),
        replication_factor=_number(
            prefix, "replication.factor", given, fallback.replication_factor if fallback else None
        ),
        settings={name: value for name, value in given.items() if name not in _OWN},
    )


def _number(prefix: str, name: str, given: Mapping[str, str], fallback: int | None) -> int:
    if name not in given:
        if fallback is None:
            raise ConfigError(
                f"The property {prefix}{name} is required for topics that the connector creates", name=prefix + name
            )
        return fallback
    number: int = parse_type(prefix + name, given[name], ConfigDef.Type.INT)
    replication_factor(prefix + name, number)
    return number


def _patterns(prefix: str, name: str, given: Mapping[str, str]) -> list[re.Pattern[str]]:
    values: list[Any] = parse_type(prefix + name, given.get(name, ""), ConfigDef.Type.LIST)
    if name == "include" and not any(values):
        raise ConfigError(
            f"The property {prefix}include must list the topics of the group as regular expressions", name=prefix + name
        )
    return [python_regex(prefix + name, value) for value in values if value]
