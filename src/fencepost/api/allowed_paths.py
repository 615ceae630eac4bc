"""Restricts which files a configuration may name.

The check applies to the file that a path leads to, and links can change between the check and the opening of the file.
So the path is resolved first, and then the file is opened from the allowed directory on, one directory after the
other, without following links. The worker's own files are refused wherever they are, see `own_files`.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from fencepost.api.errors import ConfigError
from fencepost.api.own_files import NO_FILES, OwnFiles, is_at_or_below

PROPERTY: Final = "fencepost.files.allowed.paths"

_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC
# Passing through a directory needs no right to list it. O_PATH exists only on Linux.
_DIRECTORY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | _NO_LINK
# Without O_NONBLOCK, opening a named pipe would block.
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | _NO_LINK
_LINK_ERRORS: Final = (errno.ELOOP, errno.ENOTDIR)

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class PathsOfWorker:
    """What another worker of the group allows: its `directory`, where its relative paths begin, and its `paths`."""

    worker: str
    directory: str
    paths: tuple[str, ...] | None

    def check(self, path: str, property_name: str) -> None:
        """Raise ConfigError unless this worker allows a path, judging by the path's text only."""
        asked = os.path.normpath(os.path.join(self.directory, path))  # noqa: PTH118 - on another machine
        relative = not os.path.isabs(path) and self.directory != os.getcwd()  # noqa: PTH109, PTH117 - likewise
        if relative or (self.paths is not None and not any(is_at_or_below(asked, allowed) for allowed in self.paths)):
            allowed = "everything" if self.paths is None else ", ".join(self.paths) or "nothing"
            raise ConfigError(
                f"The file {path} may not be read: the worker {self.worker}, which may run the connector's tasks, has the "
                f"working directory {self.directory} and allows {allowed}. Name a file by an absolute path that all workers "
                f"of the group allow, or ask their owner to give them the same {property_name}"
            )

    def check_url(self, url: str, property_name: str) -> None:
        """Raise ConfigError unless this worker allows the URL of an object."""
        if self.paths is not None and not _has_url(self.paths, url):
            raise ConfigError(
                f"{url} may not be read: the worker {self.worker}, which may run the connector's tasks, does not allow it. Ask "
                f"the owner of the group's workers to give them the same {property_name}"
            )


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """Opens files at or below `paths`, which are absolute, or URLs of objects; None allows all. It can be pickled.

    `property_name` is the property that set them, and `nothing` describes the allowed files without paths, for
    messages. `own` are the worker's own files, which are never opened. `others` are further workers that must allow a
    path.
    """

    paths: tuple[str, ...] | None = None
    property_name: str = PROPERTY
    nothing: str = "nothing"
    own: OwnFiles = NO_FILES
    others: tuple[PathsOfWorker, ...] = ()

    @classmethod
    def of(cls, paths: Iterable[str], property_name: str = PROPERTY, *, own: OwnFiles = NO_FILES) -> AllowedPaths:
        """Allow these paths and URLs only, without `own`. Relative paths begin at the working directory."""
        return cls(tuple(_absolute(path) for path in paths if path), property_name, own=own)

    @property
    def restricted(self) -> bool:
        """Whether there are paths that are not allowed."""
        return self.paths is not None

    def check(self, path: str) -> None:
        """Raise ConfigError unless a path, with links resolved, leads to an allowed place. The file need not exist."""
        check_path(path)
        if self.paths is not None:
            self._place(path, self.paths)
        for worker in self.others:
            worker.check(path, self.property_name)
        with suppress(OSError):
            self.own.check(path, os.stat(path))  # noqa: PTH116 - called often

    def check_url(self, url: str) -> None:
        """Raise ConfigError unless the URL of an object, or a pattern of them, is at or below an allowed URL."""
        if self.paths is not None and not _has_url(self.paths, url):
            raise ConfigError(
                f"{url} may not be read: it is not in what the property {self.property_name} allows "
                f"({', '.join(self.paths) or self.nothing}). Ask the worker's owner to add "
                f"{'/'.join(url.split('/')[:3])}/ to the property"
            )
        for worker in self.others:
            worker.check_url(url, self.property_name)

    def allows_files_of(self, directory: str, inodes: AbstractSet[int]) -> bool:
        """Return whether regular files directly in a directory may all be read; if not, each must be checked.

        They have `inodes` and are not links: so they are within the directory, and only the worker's own files are
        refused.
        """
        try:
            self.check(directory or os.curdir)
            device = os.stat(directory or os.curdir).st_dev  # noqa: PTH116 - called often
        except (ConfigError, OSError):
            return False
        return not any(own_device == device and inode in inodes for own_device, inode in self.own.found().identities)

    def open(self, path: str) -> FileIO:
        """Open a file for reading. Raises ConfigError if that is not allowed, and OSError as `open` does."""
        return FileIO(path, opener=lambda _path, flags: self._descriptor(path, flags))

    def _descriptor(self, path: str, flags: int) -> int:
        before, target = self.own.found(), None
        if self.paths is None:
            descriptor = os.open(path, flags | os.O_CLOEXEC)
        else:
            descriptor, target = self._below(path, self.paths)
        try:
            self.own.check(path, os.fstat(descriptor), before, target)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _below(self, path: str, allowed: tuple[str, ...]) -> tuple[int, str]:
        """Open a file, and return its path without links. Most paths have none: then nothing needs to be resolved."""
        for root in allowed if path == os.path.normpath(path) else ():
            if is_at_or_below(path, root):
                try:
                    return _opened(os.path.realpath(root), _parts(path, root))
                except OSError as error:
                    if error.errno not in _LINK_ERRORS:
                        raise
        return _opened(*self._place(path, allowed))

    def _place(self, path: str, allowed: tuple[str, ...]) -> tuple[str, list[str]]:
        """Return the allowed directory or file that contains a path, and the components from there."""
        # Unlike Path.resolve, it leaves loops of links to the opening, which fails.
        target = os.path.realpath(path)
        for root in (os.path.realpath(path) for path in allowed if _URL.match(path) is None):
            if is_at_or_below(target, root):
                return root, _parts(target, root)
        raise ConfigError(
            f"The file {path} may not be read: with its links followed, it is not in what the property "
            f"{self.property_name} allows ({', '.join(allowed) or self.nothing}). Move it there, or ask the worker's owner "
            "to add its directory to the property"
        )


def _absolute(path: str) -> str:
    return path if _URL.match(path) else os.path.abspath(Path(path).expanduser())  # noqa: PTH100 - resolving is for later


def _has_url(allowed: Iterable[str], url: str) -> bool:
    # Some stores take .. for the directory above. hdfs:/// is one name node, hdfs:// is all of them.
    return ".." not in url.split("/") and any(
        url == root or url.startswith(root if root.endswith("/") else f"{root}/") for root in allowed
    )


def _parts(path: str, root: str) -> list[str]:
    return [part for part in path[len(root) :].split(os.sep) if part]  # noqa: PTH206 - called for each file


def check_path(path: str) -> None:
    """Raise ConfigError for a text that cannot be a path."""
    if "\0" in path:
        raise ConfigError(f"{path!r} is not a path: it has the character NUL. Remove it")


ANYWHERE: Final = AllowedPaths()
"""Allows all files that the process may read."""


def _opened(root: str, below: Sequence[str]) -> tuple[int, str]:
    return _descriptor(root, below), os.path.join(root, *below)  # noqa: PTH118 - called for each file


def _descriptor(root: str, below: Sequence[str]) -> int:
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
