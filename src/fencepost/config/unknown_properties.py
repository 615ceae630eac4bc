"""Finds unknown properties, most of which are misspelt. Pure: this module has no side effects."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

_ALIKE = 0.8


def unknown_properties(
    names: Iterable[str], known: Collection[str], *, open_prefixes: Collection[str] = (), only_alike: bool = False
) -> dict[str, str | None]:
    """Return the unknown names, each with the most similar known name, or None if no known name is similar.

    Names with one of `open_prefixes` are not reported. With `only_alike`, a name is reported only if it is similar to a
    known one. A name is never paired with its own beginning: `value.converter.x` is an unknown property of the
    converter, not a misspelt `value.converter`.
    """
    found: dict[str, str | None] = {}
    for name in names:
        if name in known or name.startswith(tuple(open_prefixes)):
            continue
        hints = [each for each in known if not name.startswith(f"{each}.")]
        near = nearest(name, hints)
        if near is not None or not only_alike:
            found[name] = near
    return found


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is most similar to another name, None if none is similar."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=_ALIKE)), None)
