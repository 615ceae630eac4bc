"""Tells which names are one path that is spelled in several ways, as in `in/a.csv`, `./in/a.csv` and `/data/in/a.csv`."""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Sequence

from fencepost.connectors.files.stores.objects import is_object


def spelled_once(names: Collection[str], patterns: Sequence[str], known: Container[str]) -> set[str]:
    """Return the names without further spellings of the same path; known ones stay, else the first one.

    Links are paths of their own: `..` alone is resolved, because it leads elsewhere behind one. `patterns` are those that
    the names fit: most are spelled so that no name can come twice, which spares looking.
    """
    if not _may_differ(patterns):
        return set(names)
    directories: dict[str, str] = {}
    spellings: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name not in known):
        directory, base = os.path.split(name)
        if directory not in directories:
            directories[directory] = directory if is_object(name) else _plain(directory)
        spellings.setdefault(f"{directories[directory]}/{base}", name)
    return set(spellings.values())


def _may_differ(patterns: Sequence[str]) -> bool:
    plain = all(os.path.normpath(pattern) == pattern and ".." not in pattern.split("/") for pattern in patterns)
    return len(patterns) > 1 and not (plain and len(set(map(os.path.isabs, patterns))) == 1)


def _plain(directory: str) -> str:
    parts = directory.split("/")
    if ".." in parts:
        after = len(parts) - parts[::-1].index("..")
        directory = "/".join((os.path.realpath("/".join(parts[:after])), *parts[after:]))
    return os.path.abspath(directory)  # noqa: PTH100 - no .. is left, and Path.absolute leaves // and . as they are
