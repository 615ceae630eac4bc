"""Checks Spark's datetime patterns without a JVM (Spark's "Datetime Patterns for Formatting and Parsing").

Spark first refuses certain letters, and then gives the pattern to Java's DateTimeFormatterBuilder. A worker validates a
configuration without a Spark session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Final

from fencepost.api.errors import ConfigError

_MAX_LETTERS: Final[Mapping[str, int]] = {
    "G": 4, "y": 6, "g": 19, "v": 4, "D": 3, "M": 4, "L": 4, "d": 2, "Q": 4, "q": 4, "E": 4, "F": 1, "a": 1, "h": 2, "K": 2, "k": 2,
    "H": 2, "m": 2, "s": 2, "S": 9, "V": 2, "z": 4, "O": 4, "X": 5, "x": 5, "Z": 5,
}  # fmt: skip
"""The letters of patterns, and how many of the same letter may stand in a row."""
_EXACTLY: Final[Mapping[str, tuple[int, ...]]] = {"V": (2,), "O": (1, 4), "v": (1, 4)}
_ONLY_FORMATS: Final = frozenset("EQqF")
_RESERVED: Final = frozenset("#{}")
_QUOTED: Final = re.compile("'[^']*'")


def datetime_pattern_error(pattern: str, *, parses: bool) -> str | None:
    """Return the error of a pattern for formatting times, and if `parses`, also for parsing them.

    The result is None for a valid pattern.
    """
    plain = _QUOTED.sub(" ", pattern)
    if "'" in plain:
        return "has a quote that is not closed"
    depth = 0
    for character, run in groupby(plain):
        count = len(list(run))
        depth += {"[": count, "]": -count}.get(character, 0)
        error = "has a ] without a [" if depth < 0 else _error_of_run(character, count, parses=parses)
        if error is not None:
            return error
    return None


def _error_of_run(character: str, count: int, *, parses: bool) -> str | None:
    """Return the error of `count` equal characters in a row outside of quotes; None if they are valid."""
    if character in _RESERVED:
        return f"has {character}, which patterns reserve: put it between quotes"
    if not (character.isascii() and character.isalpha()):
        return None
    if character not in _MAX_LETTERS:
        return f"has {character}, which is not a letter of a pattern: put text between quotes, as in yyyy-MM-dd'T'HH"
    if count > _MAX_LETTERS[character] or count not in _EXACTLY.get(character, (count,)):
        return f"has {character * count}, which has too many letters, or too few"
    if parses and character in _ONLY_FORMATS:
        return f"has {character}, by which Spark formats times but reads none"
    return None


def check_datetime_pattern(name: str, pattern: str, *, parses: bool = False) -> None:
    """Raise ConfigError for a property whose value is an invalid pattern; see `datetime_pattern_error`."""
    error = datetime_pattern_error(pattern, parses=parses)
    if error is not None:
        raise ConfigError(
            f"{pattern!r}, the value of the property {name}, is not a datetime pattern of Spark's: it {error}",
            name=name,
        )
