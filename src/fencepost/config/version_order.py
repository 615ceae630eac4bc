"""The order of versions: PEP 440's if all are valid versions of Python packages, else Maven's, as in Kafka Connect.

Maven's order (POM reference, "Version Order Specification"): a version is split at dots, at hyphens, and between digits
and letters, as if a hyphen stood there. Parts without a meaning (0, final, ga, release) are left out at the end and
before hyphens. Then parts are compared one by one: a qualifier comes before a number after a hyphen, which comes before
a number after a dot. Maven's own code differs from its specification for a qualifier after `-0`, `-final` or a dot and
a letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import total_ordering
from itertools import zip_longest
from typing import Any, Final, TypeVar

from packaging.version import InvalidVersion, Version

_PARTS: Final = re.compile(r"\d+|[^\d.-]+|[.-]")
_QUALIFIERS: Final = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
_SAME: Final = {"ga": "", "final": "", "release": "", "cr": "rc"}
_SHORT: Final = {"a": "alpha", "b": "beta", "m": "milestone"}
_LIKE_VERSION: Final = re.compile(r"\d[\w.+-]{0,199}", re.ASCII)
_PLACEHOLDERS: Final = frozenset({"x", "*"})

_T = TypeVar("_T")
_Part = tuple[str, int | str]
"""A part of a version: the separator before it, a dot or a hyphen, and a number or a qualifier."""


def versions(texts: Iterable[str]) -> list[Any]:
    """Return texts as objects that can be compared with each other."""
    given = list(texts)
    try:
        return [Version(text) for text in given]
    except InvalidVersion:
        return [MavenVersion(text) for text in given]


def newest_first(items: Sequence[_T], version_of: Callable[[_T], str]) -> list[_T]:
    """Return items by version, the newest first.

    Items without a version are last; items with equal versions keep their order.
    """
    texts = [version_of(item) for item in items]
    having = [number for number, text in enumerate(texts) if is_version(text)]
    places = dict(zip(having, versions(texts[number] for number in having), strict=True))
    ordered = sorted(having, key=places.__getitem__, reverse=True)
    return [items[number] for number in (*ordered, *(number for number in range(len(items)) if number not in places))]


def is_version(text: str) -> bool:
    """Return whether a text looks like a version, of Python or Java."""
    return _LIKE_VERSION.fullmatch(text) is not None and _PLACEHOLDERS.isdisjoint(re.split("[.-]", text.lower()))


@total_ordering
class MavenVersion:
    """A version that is compared in Maven's order. Any text is a valid version."""

    def __init__(self, text: str) -> None:
        self._parts = _trimmed(_split(text.lower()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MavenVersion) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(tuple(self._parts))

    def __lt__(self, other: MavenVersion) -> bool:
        for mine, others in zip_longest(self._parts, other._parts):
            first, second = _key(mine, others), _key(others, mine)
            if first != second:
                return first < second
        return False


def _split(text: str) -> list[_Part]:
    found: list[_Part] = []
    before, token = "-", None
    for part in [*_PARTS.findall(text), "."]:
        if part in ".-":
            # An empty token is a zero.
            found.append((before, _token(token or "0", None)))
            before, token = part, None
        elif token is None:
            token = part
        else:
            found.append((before, _token(token, part)))
            before, token = "-", part
    return found


def _token(text: str, following: str | None) -> int | str:
    if text.isdecimal():
        return int(text)
    if following is not None and following.isdecimal():
        text = _SHORT.get(text, text)
    return _SAME.get(text, text)


def _trimmed(parts: list[_Part]) -> list[_Part]:
    """Return the parts, without meaningless parts at the end and before each hyphen."""
    kept: list[_Part] = []
    for part in parts:
        if part[0] == "-":
            _trim(kept)
        kept.append(part)
    _trim(kept)
    return kept


def _trim(parts: list[_Part]) -> None:
    while parts and parts[-1][1] in (0, ""):
        parts.pop()


def _key(part: _Part | None, other: _Part | None) -> tuple[int, int, int | str]:
    """The sort key of a part. If `part` is None, it counts as an empty part of the same kind as `other`."""
    if part is None:
        assert other is not None  # noqa: S101 - of two, one is longer
        part = (other[0], 0 if isinstance(other[1], int) else "")
    before, token = part
    if isinstance(token, int):
        return (2 if before == "." else 1, token, "")
    known = _QUALIFIERS.index(token) if token in _QUALIFIERS else len(_QUALIFIERS)
    return (0, known, token)
