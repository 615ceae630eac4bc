"""Properties that nobody knows: most of them are misspelt. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

_ALIKE = 0.8


def unknown_properties(
    names: Iterable[str], known: Collection[str], *, open_prefixes: Collection[str] = (), only_alike: bool = False
) -> dict[str, str | None]:
    """Return the names that are not known, each with the known one that it is most like, None if it is like none.

    Whatever begins with one of `open_prefixes` may be known to somebody. With `only_alike`, so may be any name that is
    like none of the known ones.
    """
    found: dict[str, str | None] = {}
    for name in names:
        if name in known or name.startswith(tuple(open_prefixes)):
            continue
        nearest = next(iter(get_close_matches(name, known, n=1, cutoff=_ALIKE)), None)
        if nearest is not None or not only_alike:
            found[name] = nearest
    return found
