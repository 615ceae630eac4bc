"""Finds unknown properties: most of them are misspelt. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

_ALIKE = 0.8


def unknown_properties(
    names: Iterable[str], known: Collection[str], *, open_prefixes: Collection[str] = (), only_alike: bool = False
) -> dict[str, str | None]:
    """Return the unknown names, each with the most similar known one, or None if none is similar.

    Names with one of `open_prefixes` are not reported. With `only_alike`, neither are names that are similar to no
    known one. A known name does not suggest names below it: `value.converter.x` belongs to the converter.
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
