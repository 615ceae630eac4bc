"""Restricts which files a configuration may name.

The check applies to the file that a path leads to, and links can change between the check and the opening of the file.
So the path is resolved first, and then the file is opened from the allowed directory on, one directory after the
other, without following links.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from fencepost.api.errors import ConfigError

PROPERTY: Final = "fencepost.files.allowed.paths"

_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC
# Passing through a directory needs no right to list it. O_PATH exists only on Linux.
_DIRECTORY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | _NO_LINK
# Without O_NONBLOCK, opening a named pipe would block.
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | _NO_LINK


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """Opens files at or below `paths`, which are absolute; None allows all paths. It can be pickled.

    `property_name` is the property that set them, for messages.
    """

    paths: tuple[str, ...] | None = None
    property_name: str = PROPERTY

    @classmethod
    def of(cls, paths: Iterable[str], property_name: str = PROPERTY) -> AllowedPaths:
        """Allow these paths only. Relative ones begin at the working directory."""
        return cls(tuple(os.path.abspath(Path(path).expanduser()) for path in paths if path), property_name)  # noqa: PTH100 - resolving is for later

    @property
    def restricted(self) -> bool:
        """Whether there are paths that are not allowed."""
        return self.paths is not None

    def check(self, path: str) -> None:
        """Raise ConfigError unless a path, with links resolved, leads to an allowed place. The file need not exist."""
        if self.paths is not None:
            self._place(path, self.paths)

    def open(self, path: str) -> FileIO:
        """Open a file for reading. Raises ConfigError if that is not allowed, and OSError as `open` does."""
        if self.paths is None:
            return FileIO(path)
        root, below = self._place(path, self.paths)
        return FileIO(path, opener=lambda _path, _flags: _descriptor(root, below))

    def _place(self, path: str, allowed: tuple[str, ...]) -> tuple[Path, tuple[str, ...]]:
        """Return the allowed directory or file that contains a path, and the components from there."""
        target = _resolved(path)
        for root in map(_resolved, allowed):
            if target.is_relative_to(root):
                return root, target.relative_to(root).parts
        raise ConfigError(
            f"The file {path} may not be read: with its links followed, it is not in what the property "
            f"{self.property_name} allows ({', '.join(allowed) or 'nothing'}). Move it there, or ask the worker's owner "
            "to add its directory to the property"
        )


ANYWHERE: Final = AllowedPaths()
"""Allows all files that the process may read."""


def _resolved(path: str) -> Path:
    # Unlike Path.resolve, it raises an error for loops of links.
    return Path(os.path.realpath(path))


def _descriptor(root: Path, below: tuple[str, ...]) -> int:
    if not below:
        return os.open(root, _FILE)
    directory = os.open(root, _DIRECTORY)
    try:
        for part in below[:-1]:
            inner = os.open(part, _DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = inner
        return os.open(below[-1], _FILE, dir_fd=directory)
    finally:
        os.close(directory)
