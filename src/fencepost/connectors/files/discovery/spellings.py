"""Finds names that are one path in several spellings, such as `in/a.csv`, `./in/a.csv` and `/data/in/a.csv`.

A file is found once, whatever patterns match it. If `files` is spelled in another way later, the files keep their
offsets: a task reads the offsets under the other spellings of its directories, and commits them under the new names
before it commits anything else.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from fencepost.connectors.files.stores.objects import is_object


def spelled_once(names: Collection[str], patterns: Sequence[str], known: Container[str]) -> Collection[str]:
    """Return one name for each path.

    A known name is preferred, then the first name of the path.

    Links count as separate paths. Links before a `..` are resolved, because the `..` depends on their targets.
    `patterns` are the patterns that found the names. Most patterns cannot find a path twice; then nothing is compared.
    """
    if not may_differ(patterns):
        return names
    directories: dict[str, str] = {}
    spellings: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name not in known):
        directory, base = os.path.split(name)
        if directory not in directories:
            directories[directory] = directory if is_object(name) else _plain(directory)
        spellings.setdefault(f"{directories[directory]}/{base}", name)
    return set(spellings.values())


def respelled(files: Iterable[str], committed: Iterable[str]) -> dict[str, list[str]]:
    """Return, for each directory of the files, its other spellings in the names that have committed offsets.

    A path has only one spelling in `files`, so no task has one of the other names.
    """
    others: dict[str, list[str]] = {}
    for directory in _directories(committed):
        others.setdefault(_plain(directory), []).append(directory)
    found = {directory: others.get(_plain(directory), []) for directory in _directories(files)}
    return {
        directory: sorted(name for name in names if name != directory)
        for directory, names in found.items()
        if names and names != [directory]
    }


def other_spellings(file: str, spellings: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of a file in the other spellings of its directory."""
    directory, base = os.path.split(file)
    return [os.path.join(other, base) for other in spellings.get(directory, ())]  # noqa: PTH118 - spares making Paths


def with_present_names(
    files: Iterable[str], formers: Mapping[str, list[str]], spellings: Mapping[str, Sequence[str]]
) -> Mapping[str, list[str]]:
    """Return the old names of files. If an old name is in another spelling, its present spelling is added."""
    if not formers or not spellings:
        return formers
    present = {other: file for file in files for other in other_spellings(file, spellings)}
    return {file: [*names, *(present[name] for name in names if name in present)] for file, names in formers.items()}


def plain_spelling(path: str) -> str:
    """Return the spelling that stands for all spellings of a path. Links count as separate paths, as above."""
    directory, base = os.path.split(path)
    return path if is_object(path) else f"{_plain(directory)}/{base}"


def _directories(names: Iterable[str]) -> dict[str, None]:
    # Many names share few directories. The expensive steps are done once for each directory.
    beginnings = dict.fromkeys(name[: name.rfind("/") + 1] for name in names)
    return dict.fromkeys(os.path.split(beginning)[0] for beginning in beginnings if not is_object(beginning))


def may_differ(patterns: Sequence[str]) -> bool:
    """Return whether patterns may find one path in several spellings."""
    plain = all(os.path.normpath(pattern) == pattern and ".." not in pattern.split("/") for pattern in patterns)
    return len(patterns) > 1 and not (plain and len(set(map(os.path.isabs, patterns))) == 1)


def _plain(directory: str) -> str:
    parts = directory.split("/")
    if ".." in parts:
        after = len(parts) - parts[::-1].index("..")
        directory = "/".join((os.path.realpath("/".join(parts[:after])), *parts[after:]))
    return os.path.abspath(directory)  # noqa: PTH100 - no .. is left, and Path.absolute leaves // and . as they are
