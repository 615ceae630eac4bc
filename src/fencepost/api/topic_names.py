"""The names that brokers accept for topics.

The validators are for ConfigDef, and raise ConfigError for the property.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fencepost.api.errors import ConfigError

LONGEST: Final = 249
"""The maximum number of characters in a topic's name."""

OTHER_CHARACTERS: Final = re.compile(r"[^a-zA-Z0-9._-]")
"""Matches a character that a topic's name cannot contain."""

RULE: Final = f"the name of a topic has 1 to {LONGEST} letters, digits, '.', '_' and '-', and is not '.' or '..'"
"""The rule for topic names, for messages."""


def is_topic_name(text: str) -> bool:
    """Return whether brokers accept a text as the name of a topic."""
    return 1 <= len(text) <= LONGEST and not OTHER_CHARACTERS.search(text) and text not in (".", "..")


def topic_name(name: str, value: Any) -> None:
    """Allow topic names, and None."""
    if value is not None and not is_topic_name(str(value)):
        raise ConfigError(f"Invalid value {value!r} for the property {name}: {RULE}", name=name)


def topic_prefix(name: str, value: Any) -> None:
    """Allow a topic name, a prefix of a topic name, and None."""
    if value is not None and not is_topic_name(f"{value}-"):
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: names of topics begin with it, and {RULE}", name=name
        )
