"""The worker's own files: its configuration, passwords, keys and trust stores. Connectors must not read any of them.

A file has many names: links, hard links, bind mounts, `/proc/self/fd/3`. So opened files are compared by device and
inode. Device and inode are looked up by path each time, because a rotated secret is a new file with the old name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from fencepost.api.errors import ConfigError

Identity = tuple[int, int]
"""The device and inode of a file."""

_PROCESSES: Final = "/proc/self"


@dataclass(frozen=True, slots=True)
class Found:
    """The worker's own files that exist: their devices and inodes, and the paths that do not lead to a directory."""

    identities: frozenset[Identity]
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Files that connectors must not read, given by their absolute `paths`. It can be pickled.

    A directory stands for everything below it. Files directly in it are also recognised by their inodes, for example
    through a hard link elsewhere. Unless `paths` is empty, files in /proc must not be read either: they contain the
    worker's environment and memory.
    """

    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: Iterable[str]) -> OwnFiles:
        """Return own files at these paths. Relative paths begin at the working directory."""
        return cls(tuple(dict.fromkeys(os.path.abspath(path) for path in paths)))  # noqa: PTH100 - links are for later

    def found(self) -> Found:
        """Return the files that exist at this moment."""
        files, identities = [], []
        for path in self.paths:
            try:
                status = os.stat(path)  # noqa: PTH116 - called for each file that is opened: spares making a Path
                identities.append((status.st_dev, status.st_ino))
                if not stat.S_ISDIR(status.st_mode):
                    files.append(path)
                    continue
                with os.scandir(path) as entries:
                    identities += [identity for entry in entries for identity in _identity(entry.path)]
            except OSError:
                # No file with this name exists here, for example on an executor on another machine.
                continue
        return Found(frozenset(identities), frozenset(files))

    def check(self, path: str, opened: os.stat_result, before: Found | None = None, target: str | None = None) -> None:
        """Raise ConfigError if a path, which is now open, leads to one of these files.

        `before` are the own files that were found before the path was opened, because a file may have been replaced
        since then. `target` is the path without links, None if that is not known.
        """
        if not self.paths:
            return
        if opened.st_dev == _device_of_processes():
            raise ConfigError(
                f"The file {path} may not be read: it describes processes, with the worker's environment and memory. Name "
                "another file"
            )
        now = self.found()
        before = now if before is None else before
        files = now.files & before.files
        directories = [own for own in self.paths if own not in files]
        if (opened.st_dev, opened.st_ino) in now.identities | before.identities or _is_below_any(
            directories, path, target
        ):
            raise ConfigError(
                f"The file {path} may not be read: it is one of the worker's own, with its configuration, passwords, keys or "
                "trusted certificates, whichever path leads to it. Name another file; a file without secrets can be copied"
            )


NO_FILES: Final = OwnFiles()


def is_at_or_below(path: str, folder: str) -> bool:
    """Return whether an absolute path is `folder` or is below it.

    Both paths must be normalized. The texts of the paths are compared; links are not followed.
    """
    return path == folder or path.startswith(f"{folder.rstrip(os.sep)}{os.sep}")


def _is_below_any(directories: list[str], path: str, target: str | None) -> bool:
    if not directories:
        return False
    found = os.path.realpath(path) if target is None else target
    return any(is_at_or_below(found, own) for own in map(os.path.realpath, directories))


def _identity(path: str) -> Iterator[Identity]:
    try:
        status = os.stat(path)  # noqa: PTH116 - likewise
    except OSError:
        return
    yield status.st_dev, status.st_ino


@cache
def _device_of_processes() -> int | None:
    try:
        return os.stat(_PROCESSES).st_dev  # noqa: PTH116 - likewise
    except OSError:
        return None
