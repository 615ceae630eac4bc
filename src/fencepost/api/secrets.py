"""Keeps passwords out of what a worker says: its log, its answers, and the traces in statuses.

Which properties hold passwords is known by their definitions, or by their names where nobody defines them. Which values
config providers gave is known when they are looked up. Both are taken note of in SECRETS, process-wide as the log is,
because an exception of a library or of a connector may have any of them in its text.

Texts are freed of secrets before they are cut, folded or escaped. Some are cut where nobody knows the secrets, on
executors of Spark; of these, what is left of a secret beside the cut is hidden as well.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from fencepost.api.texts import LEFT_OUT, printable

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
    """Return a text with secrets (values -> what to show) replaced, longer ones first, and all in one go.

    A value is found as it is, escaped as Python's repr and JSON do it, quoted as in URLs, and line by line.
    """
    return _Hiding(_spelled(secrets)).applied(text)


class Secrets:
    """Values that must not be said. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._hiding = _Hiding({})

    def learn(self, values: Mapping[str, str]) -> None:
        """Take note of values, each with what to show instead."""
        with self._lock:
            fresh = {value: shown for value, shown in values.items() if value not in self._known}
            if fresh:
                self._known |= fresh.keys()
                self._hiding = _Hiding({**_spelled(fresh), **self._hiding.shown})

    def learn_properties(self, properties: Mapping[str, str]) -> None:
        """Take note of the passwords among properties, by their names."""
        for name, value in properties.items():
            if is_secret_name(name):
                self.learn(dict.fromkeys(secret_values(name, value), HIDDEN))

    def hidden(self, text: str) -> str:
        """Return a text without the values."""
        return self._hiding.applied(text)

    def excerpt(self, text: str, longest: int) -> str:
        """Return the first `longest` characters of a text without the values."""
        return self.hidden(text)[:longest]


class _Hiding:
    """Replaces the keys of `shown` by its values."""

    def __init__(self, shown: Mapping[str, str]) -> None:
        self.shown = {value: instead for value, instead in shown.items() if len(value) >= _SHORTEST}
        values = sorted(self.shown, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_found, values))) if values else None

    def applied(self, text: str) -> str:
        if self._pattern is None:
            return text
        hidden = self._pattern.sub(lambda match: self.shown[match[0]], text)
        return self._without_halves(hidden) if LEFT_OUT.search(hidden) else hidden

    def _without_halves(self, text: str) -> str:
        """Replace what a cut left of a value."""
        parts, cuts = LEFT_OUT.split(text), LEFT_OUT.findall(text)
        for number in range(len(cuts)):
            before, after = parts[number], parts[number + 1]
            if begun := _longest(_begun(value, before) for value in self.shown):
                parts[number] = f"{before[:-begun]}{HIDDEN}"
            if ended := _longest(_ended(value, after) for value in self.shown):
                parts[number + 1] = f"{HIDDEN}{after[ended:]}"
        return "".join(part for pair in zip(parts, [*cuts, ""], strict=True) for part in pair)


def _longest(lengths: Iterable[int]) -> int:
    return max(lengths, default=0)


def _begun(value: str, text: str) -> int:
    """The number of characters at the end of a text with which a value begins."""
    end = text[-len(value) :]
    start = end.find(value[:_SHORTEST])
    while start >= 0 and not value.startswith(end[start:]):
        start = end.find(value[:_SHORTEST], start + 1)
    return len(end) - start if start >= 0 else 0


def _ended(value: str, text: str) -> int:
    """The number of characters at the beginning of a text with which a value ends."""
    return _begun(value[::-1], text[: len(value)][::-1])


def _spelled(secrets: Mapping[str, str]) -> dict[str, str]:
    """The secrets in each way in which texts have them."""
    spelled = {spelling: shown for value, shown in secrets.items() for spelling in _spellings(value)}
    return {**spelled, **secrets}


def _spellings(value: str) -> Iterator[str]:
    folded = " ".join(value.split())
    # A trace may indent each line.
    lines = [line.strip() for line in value.splitlines()]
    for text in (value, folded, *(line for line in lines if len(line) >= _SHORTEST_ANYWHERE)):
        yield from (text, repr(text)[1:-1], printable(text), quote(text), quote(text, safe=""), quote_plus(text))
        yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])


def _found(value: str) -> str:
    escaped = re.escape(value)
    return escaped if len(value) >= _SHORTEST_ANYWHERE else rf"(?<!\w){escaped}(?!\w)"


SECRETS: Final = Secrets()
