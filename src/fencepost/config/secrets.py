"""Keeps passwords out of what a worker says: its log, its answers, and the traces in statuses.

Which properties hold passwords is known by their definitions, or by their names where nobody defines them. Which values
config providers gave is known when they are looked up. Both are taken note of in SECRETS, process-wide as the log is,
because an exception of a library or of a connector may have any of them in its text.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Final

HIDDEN: Final = "[hidden]"
"""What is shown in place of a password."""

_NAMES: Final = ("password", "sasl.jaas.config", "ssl.keystore.key", "secret")
_JAAS_OPTION: Final = re.compile(
    r"""(?i)\b\w*(?:password|secret)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)"""
)

_SHORTEST: Final = 4
"""Shorter values would be found in every other line."""

_SHORTEST_ANYWHERE: Final = 8
"""Shorter values are hidden where they stand by themselves, and not inside of words."""


def is_secret_name(name: str) -> bool:
    """Say whether a property that nobody defined holds a password, by its name."""
    return name.lower().endswith(_NAMES)


def secret_values(name: str, value: str) -> list[str]:
    """Return what is to be hidden of a property that holds a password: all of it, and the passwords in a JAAS entry."""
    options = [option.strip("\"'") for option in _JAAS_OPTION.findall(value)] if name.endswith("jaas.config") else []
    return [value, *options]


def hide(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text with secrets (values -> what to show) replaced, longer ones first, and all in one go."""
    pattern = _pattern(secrets)
    return text if pattern is None else pattern.sub(lambda match: secrets[match[0]], text)


class Secrets:
    """Values that must not be said. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, values: Mapping[str, str]) -> None:
        """Take note of values, each with what to show instead."""
        with self._lock:
            fresh = {value: shown for value, shown in values.items() if value not in self._shown}
            if fresh:
                self._shown = {**self._shown, **fresh}
                self._pattern = _pattern(self._shown)

    def learn_properties(self, properties: Mapping[str, str]) -> None:
        """Take note of the passwords among properties, by their names."""
        for name, value in properties.items():
            if is_secret_name(name):
                self.learn(dict.fromkeys(secret_values(name, value), HIDDEN))

    def hidden(self, text: str) -> str:
        """Return a text without the values."""
        pattern = self._pattern
        return text if pattern is None else pattern.sub(lambda match: self._shown[match[0]], text)


def _pattern(secrets: Mapping[str, str]) -> re.Pattern[str] | None:
    values = sorted((value for value in secrets if len(value) >= _SHORTEST), key=len, reverse=True)
    return re.compile("|".join(map(_found, values))) if values else None


def _found(value: str) -> str:
    escaped = re.escape(value)
    return escaped if len(value) >= _SHORTEST_ANYWHERE else rf"(?<!\w){escaped}(?!\w)"


SECRETS: Final = Secrets()
