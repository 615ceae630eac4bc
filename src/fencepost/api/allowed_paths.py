"""Restricts which files a configuration may name.

The check applies to the file that a path leads to, but links can change between the check and the opening of the file.
So the path is resolved first. Then the file is opened starting at the allowed directory, one directory after the
other, without following links. The worker's own files are always refused, see `own_files`.
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
# Passing through a directory needs no right to list the directory. O_PATH exists only on Linux.
_DIRECTORY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | _NO_LINK
# Without O_NONBLOCK, opening a named pipe would block.
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | _NO_LINK
_LINK_ERRORS: Final = (errno.ELOOP, errno.ENOTDIR)

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class PathsOfWorker:
    """The files that another worker of the group allows: files at or below `paths`, or all files if `paths` is None.

    `directory` is that worker's working directory, where its relative paths begin.
    """

    worker: str
    directory: str
    paths: tuple[str, ...] | None

    def check(self, path: str, property_name: str) -> None:
        """Raise ConfigError unless this worker allows a path, judged only by the path's text."""
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
    """Opens files at or below `paths`, which are absolute paths, or URLs of objects; None allows all.

    The object can be pickled.

    `property_name` is the property that defines the paths, and `nothing` describes the allowed files if there are no
    paths; both are for messages. `own` are the worker's own files, which are never opened. `others` are the
    restrictions of the group's other workers, which must allow a path, too.
    """

    paths: tuple[str, ...] | None = None
    property_name: str = PROPERTY
    nothing: str = "nothing"
    own: OwnFiles = NO_FILES
    others: tuple[PathsOfWorker, ...] = ()

    @classmethod
    def of(cls, paths: Iterable[str], property_name: str = PROPERTY, *, own: OwnFiles = NO_FILES) -> AllowedPaths:
        """Allow only these paths and URLs, except for the files in `own`.

        Relative paths begin at the working directory.
        """
        return cls(tuple(_absolute(path) for path in paths if path), property_name, own=own)

    @property
    def restricted(self) -> bool:
        """Whether some paths are not allowed."""
        return self.paths is not None

    def check(self, path: str) -> None:
        """Raise ConfigError unless a path, with links resolved, is at or below an allowed path.

        The file need not exist.
        """
        check_path(path)
        if self.paths is not None:
            self._place(path, self.paths)
        for worker in self.others:
            worker.check(path, self.property_name)
        with suppress(OSError):
            self.own.check(path, os.stat(path))  # noqa: PTH116 - called often

    def check_url(self, url: str) -> None:
        """Raise ConfigError unless the URL of an object, or a pattern of URLs, is at or below an allowed URL."""
        if self.paths is not None and not _has_url(self.paths, url):
            raise ConfigError(
                f"{url} may not be read: it is not in what the property {self.property_name} allows "
                f"({', '.join(self.paths) or self.nothing}). Ask the worker's owner to add "
                f"{'/'.join(url.split('/')[:3])}/ to the property"
            )
        for worker in self.others:
            worker.check_url(url, self.property_name)

    def allows_files_of(self, directory: str, inodes: AbstractSet[int]) -> bool:
        """Return whether all regular files directly in a directory may be read. If not, each file must be checked.

        `inodes` are the inodes of these files, which are not links. Regular files are in the directory itself, so only
        the worker's own files among them must be refused.
        """
        try:
            self.check(directory or os.curdir)
            device = os.stat(directory or os.curdir).st_dev  # noqa: PTH116 - called often
        except (ConfigError, OSError):
            return False
        return not any(own_device == device and inode in inodes for own_device, inode in self.own.found().identities)

    def open(self, path: str) -> FileIO:
        """Open a file for reading. Raises ConfigError if the file is not allowed, and OSError as `open` does."""
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
        """Open a file. Return its descriptor, and its path without links.

        Most paths contain no links, so the path is resolved only if it cannot be opened as it is.
        """
        for root in allowed if path == os.path.normpath(path) else ():
            if is_at_or_below(path, root):
                try:
                    return _opened(os.path.realpath(root), _parts(path, root))
                except OSError as error:
                    if error.errno not in _LINK_ERRORS:
                        raise
        return _opened(*self._place(path, allowed))

    def _place(self, path: str, allowed: tuple[str, ...]) -> tuple[str, list[str]]:
        """Return the allowed directory or file that contains a path, and the path's components after it."""
        # Path.resolve is not used, because it may raise an error for a loop of links. With realpath, opening the file
        # reports the loop.
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
    # Some stores treat .. as the directory above. hdfs:/// is one name node; hdfs:// stands for all name nodes.
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
