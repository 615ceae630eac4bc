"""Keeps passwords out of a worker's output: out of its log, its answers, and the traces in statuses.

Definitions show which properties contain passwords; for properties without a definition, their names show it. Values of
config providers become known when they are resolved. The process has one SECRETS with all of these values, because it
has one log: the text of an exception from a library or a connector may contain any of them.

Secrets are hidden before a text is shortened, folded or escaped. Spark's executors do not know the secrets, and may
shorten a text before it gets to the worker. In such a text, a part of a secret next to the omitted part is hidden, too.
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
"""The text that replaces a password."""

_NAMES: Final = ("password", "sasl.jaas.config", "ssl.keystore.key", "secret")
_JAAS_OPTION: Final = re.compile(
    r"""(?i)\b\w*(?:password|secret)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)"""
)

_SHORTEST: Final = 4
"""Shorter values are not hidden, because they would occur in too many lines."""

_SHORTEST_ANYWHERE: Final = 8
"""Shorter values are hidden only as whole words."""


def is_secret_name(name: str) -> bool:
    """Return whether a property without a definition contains a password, judged by its name."""
    return name.lower().endswith(_NAMES)


def secret_values(name: str, value: str) -> list[str]:
    """Return the values to hide for a password property: the whole value, and the passwords in a JAAS entry."""
    options = [option.strip("\"'") for option in _JAAS_OPTION.findall(value)] if name.endswith("jaas.config") else []
    return [value, *options]


def hide(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text with secrets (value -> replacement) replaced, longer ones first, in one pass.

    A value is found unchanged, escaped as in Python's repr or in JSON, quoted as in URLs, and line by line.
    """
    return _Hiding(_spelled(secrets)).applied(text)


class Secrets:
    """Stores values that must not be shown, and hides them in texts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._renewed: dict[str, tuple[str, ...]] = {}
        self._hiding = _Hiding({})

    def learn(self, values: Mapping[str, str]) -> None:
        """Store values, each with its replacement."""
        with self._lock:
            fresh = {value: shown for value, shown in values.items() if value not in self._known}
            if fresh:
                self._known |= fresh.keys()
                self._hiding = _Hiding({**_spelled(fresh), **self._hiding.shown})

    def learn_renewed(self, owner: str, value: str) -> None:
        """Store a value that is renewed again and again, such as a token. Only an owner's two newest values are hidden.

        If all of an owner's values were hidden, each message would be searched for all of them.
        """
        with self._lock:
            kept = self._renewed.get(owner, ())
            if value in kept or value in self._known:
                return
            self._renewed[owner] = (*kept[-1:], value)
            old = _spelled(dict.fromkeys(kept[:-1], HIDDEN))
            shown = {text: instead for text, instead in self._hiding.shown.items() if text not in old}
            self._hiding = _Hiding({**_spelled({value: HIDDEN}), **shown})

    def learn_properties(self, properties: Mapping[str, str]) -> None:
        """Store the passwords among properties, by their names."""
        for name, value in properties.items():
            if is_secret_name(name):
                self.learn(dict.fromkeys(secret_values(name, value), HIDDEN))

    def hidden(self, text: str) -> str:
        """Return a text in which the values are hidden."""
        return self._hiding.applied(text)

    def excerpt(self, text: str, longest: int) -> str:
        """Return the first `longest` characters of a text in which the values are hidden."""
        return self.hidden(text)[:longest]


class _Hiding:
    """Replaces the keys of `shown` with its values."""

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
        """Replace parts of values next to the omitted part of the text."""
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
    """The number of characters at the end of a text that are the beginning of a value."""
    end = text[-len(value) :]
    start = end.find(value[:_SHORTEST])
    while start >= 0 and not value.startswith(end[start:]):
        start = end.find(value[:_SHORTEST], start + 1)
    return len(end) - start if start >= 0 else 0


def _ended(value: str, text: str) -> int:
    """The number of characters at the beginning of a text that are the end of a value."""
    return _begun(value[::-1], text[: len(value)][::-1])


def _spelled(secrets: Mapping[str, str]) -> dict[str, str]:
    """The secrets in all spellings that may occur in texts."""
    spelled = {spelling: shown for value, shown in secrets.items() for spelling in _spellings(value)}
    return {**spelled, **secrets}


def _spellings(value: str) -> Iterator[str]:
    folded = " ".join(value.split())
    # In a trace, each line of a value may be indented.
    lines = [line.strip() for line in value.splitlines()]
    for text in (value, folded, *(line for line in lines if len(line) >= _SHORTEST_ANYWHERE)):
        yield from (text, repr(text)[1:-1], printable(text), quote(text), quote(text, safe=""), quote_plus(text))
        yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])


def _found(value: str) -> str:
    escaped = re.escape(value)
    return escaped if len(value) >= _SHORTEST_ANYWHERE else rf"(?<!\w){escaped}(?!\w)"


SECRETS: Final = Secrets()
