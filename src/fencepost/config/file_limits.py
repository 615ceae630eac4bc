"""The files that a worker's connectors may read: the default directories, and the worker's own files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from fencepost.api.allowed_paths import PROPERTY, AllowedPaths
from fencepost.api.own_files import OwnFiles

_OF_SYSTEM: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys",
)  # fmt: skip
"""Directories that contain no data."""
_HOLD_OTHERS: Final = ("/", "/home", "/mnt", "/opt", "/root", "/srv", "/tmp", "/usr", "/var")  # noqa: S108 - not for us
_HOLD_SYSTEMS: Final = (Path("/usr"), Path("/var"))
"""A directory directly below one of these is a system directory."""

_FILE: Final = "file://"
_NAMING: Final = (".location", ".file")
"""The suffixes of properties that name files. Any other property names a file if its value is the path of one."""
# These properties name files that connectors, or everybody, may read.
_NOT_OWN: Final = (PROPERTY, "plugin.path")
_PROVIDER_PATHS: Final = ".param.allowed.paths"


def paths_of(paths: Sequence[str] | None, own: OwnFiles) -> AllowedPaths:
    """Return the allowed paths of the property; None allows everything except the worker's own files."""
    return AllowedPaths(own=own) if paths is None else AllowedPaths.of(paths, own=own)


def working_directory(own: OwnFiles) -> AllowedPaths:
    """Return the default directory: the working directory, unless it is a system directory."""
    directory = Path.cwd()
    of_system = any(directory.is_relative_to(place) for place in _OF_SYSTEM) or directory.parent in _HOLD_SYSTEMS
    if of_system or str(directory) in _HOLD_OTHERS:
        return AllowedPaths(
            (),
            nothing=f"nothing: it is not set, and the worker's working directory {directory} is one of the system's",
            own=own,
        )
    return AllowedPaths.of(["."], own=own)


def own_files(properties: Mapping[str, str], named: Iterable[str]) -> OwnFiles:
    """Return the worker's own files: the `named` ones, and files of its properties and config providers.

    A config provider's directory is left out if it is, or contains, a directory that connectors are allowed to read.
    """
    return OwnFiles.of([*named, *_in_properties(properties), *_of_providers(properties)])


def _in_properties(properties: Mapping[str, str]) -> Iterator[str]:
    for name, value in properties.items():
        path = value.strip().removeprefix(_FILE)
        names_file = bool(path) and name.endswith(_NAMING)
        of_others = name in _NOT_OWN or name.endswith(_PROVIDER_PATHS)
        if names_file or (not of_others and os.sep in path and _is_file(path)):
            yield path


def _of_providers(properties: Mapping[str, str]) -> Iterator[str]:
    readable = [os.path.realpath(path) for path in _listed(properties.get(PROPERTY, "."))]
    for name, value in properties.items():
        if name.endswith(_PROVIDER_PATHS):
            for path in _listed(value):
                place = os.path.realpath(path)
                if not any(os.path.commonpath([place, allowed]) == place for allowed in readable):
                    yield path


def _listed(value: str) -> list[str]:
    return [path.strip() for path in value.split(",") if path.strip()]


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False
