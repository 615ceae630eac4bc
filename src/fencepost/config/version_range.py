"""Versions of plugins that a configuration requests (KIP-891): a version, or ranges in Maven's notation.

    1.2             this version; Kafka Connect reads it as [1.2]
    [1.2,2.0)       from 1.2 on, before 2.0; either end may be left out
    [1,2),[3,4)     a version in one of these ranges
    latest          any version

Versions are compared as `version_order` says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from fencepost.api.errors import ConfigError
from fencepost.config.version_order import is_version, versions

_ANY: Final = "latest"
_RANGE: Final = re.compile(r"([\[(])([^,\[\]()]*)(?:(,)([^,\[\]()]*))?([\])])")
_RANGES: Final = re.compile(rf"{_RANGE.pattern}(?:,{_RANGE.pattern})*")


@dataclass(frozen=True, slots=True)
class _Range:
    """The versions between a lowest and a highest version. Either limit may be None, which means no limit."""

    lowest: str | None
    with_lowest: bool
    highest: str | None
    with_highest: bool

    def has(self, version: str) -> bool:
        it, lowest, highest = versions([version, self.lowest or version, self.highest or version])
        above = self.lowest is None or it > lowest or (self.with_lowest and it == lowest)
        below = self.highest is None or it < highest or (self.with_highest and it == highest)
        return bool(above and below)


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions that a property requests."""

    text: str
    _ranges: tuple[_Range, ...]

    @classmethod
    def of(cls, name: str, text: str) -> Self:
        """Read the value of a property. Raises ConfigError."""
        given = "".join(text.split())
        if not given.startswith(("[", "(")):
            # The text is kept as written, because the version of a connector may be any text.
            return cls(given, ())
        if not _RANGES.fullmatch(given):
            raise _invalid(name, text)
        try:
            return cls(given, tuple(_range(match) for match in _RANGE.finditer(given)))
        except ValueError:
            raise _invalid(name, text) from None

    def has(self, version: str) -> bool:
        """Return whether a version is among the requested ones. A version that cannot be compared is in no range."""
        if self.text in (_ANY, version):
            return True
        if not is_version(version):
            return False
        if self._ranges:
            return any(each.has(version) for each in self._ranges)
        return is_version(self.text) and _Range(self.text, True, self.text, True).has(version)

    @property
    def is_comparable(self) -> bool:
        """Whether the text is a version that can be compared, a range, or `latest`."""
        return bool(self._ranges) or self.text == _ANY or is_version(self.text)


def _range(match: re.Match[str]) -> _Range:
    """Return the range of a match. Raises ValueError if it is not a valid range."""
    opened, first, comma, second, closed = match.groups()
    if not all(map(is_version, filter(None, (first, second)))):
        raise ValueError(match[0])
    lowest = first or None
    if not comma:
        if lowest is None or (opened, closed) != ("[", "]"):
            raise ValueError(match[0])
        return _Range(lowest, True, lowest, True)
    highest = second or None
    if lowest is not None and highest is not None:
        low, high = versions([lowest, highest])
        if high < low:
            raise ValueError(match[0])
    return _Range(lowest, opened == "[", highest, closed == "]")


def _invalid(name: str, text: str) -> ConfigError:
    return ConfigError(
        f"The property {name} has the invalid value {text!r}: give a version such as 1.2, or ranges such as [1.2,2.0) or "
        "[1,2),[3,4)",
        name=name,
    )
