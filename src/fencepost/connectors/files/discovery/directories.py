"""Lists the regular files that match a pattern, one directory after the other, without a `stat` for each file.

Directory entries have the names, kinds and inodes of files, so a scan of 100,000 known files needs no `stat`. The inode
in an entry may differ from the inode that `stat` returns (overlay file systems, mount points): the entry's inode only
shows whether a name has another file than before.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import logging
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_NO_FILE: Final = (errno.ENOENT, errno.ELOOP)

_ANY_DIRECTORIES: Final = "**"

_USUAL: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ESTALE}
)
"""Errors for a directory that was removed meanwhile, is not a directory, is a broken link, or may not be read."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listing:
    """The regular files of a directory that match a pattern: their paths with the inodes of their directory entries.

    `links` are symbolic links, which may lead outside of the directory. Each link is listed with the inode of its
    target.
    """

    directory: str
    files: Mapping[str, int]
    links: Mapping[str, int]


def directories_of(pattern: str) -> Iterator[Listing]:
    """Yield the directories of a pattern. ** stands for any number of directories. Links may form cycles."""
    parts = pattern.split("/")
    if _ANY_DIRECTORIES not in parts:
        yield from _listed(pattern)
        return
    at = parts.index(_ANY_DIRECTORIES)
    before, after = "/".join(parts[:at]), parts[at + 1 :]
    if at and not before:
        before = "/"
    # As in a shell, ** at the end also stands for all files in these directories.
    rest = "/".join(after) or "*"
    for root in glob.iglob(before) if before else [before]:  # noqa: PTH207 - Path.glob refuses absolute patterns
        for directory in _directories(root):
            yield from directories_of(os.path.join(glob.escape(directory), rest))  # noqa: PTH118 - keeps a relative path as it is


def _listed(pattern: str) -> Iterator[Listing]:
    folder, last = os.path.split(pattern)
    roots: Iterable[str] = glob.iglob(folder) if glob.has_magic(folder) else (folder,)  # noqa: PTH207 - see above
    if not glob.has_magic(last):
        for root in roots:
            path = os.path.join(root, last)  # noqa: PTH118 - see above
            if os.path.lexists(path) and (inode := _regular(path)) is not None:
                yield Listing(root, {}, {path: inode})
        return
    # As in a shell, a pattern matches a hidden file only if the pattern begins with a dot itself.
    fits = re.compile(fnmatch.translate(last) if last.startswith(".") else rf"(?!\.){fnmatch.translate(last)}").match
    for root in roots:
        yield _listing(root, fits)


def _listing(directory: str, fits: Callable[[str], object]) -> Listing:
    prefix = os.path.join(directory, "")  # noqa: PTH118 - see above
    found, links = {}, []
    try:
        with os.scandir(directory or os.curdir) as entries:
            for entry in entries:
                if not fits(entry.name):
                    continue
                if entry.is_file(follow_symlinks=False):
                    found[prefix + entry.name] = entry.inode()
                elif entry.is_symlink():
                    links.append(prefix + entry.name)
    except OSError as error:
        _tell(directory, error)
        return Listing(directory, {}, {})
    return Listing(directory, found, {path: inode for path in links if (inode := _regular(path)) is not None})


def _regular(path: str) -> int | None:
    """Return the inode of a regular file; None if the file was removed, or the path is a broken link."""
    try:
        status = os.stat(path)  # noqa: PTH116 - spares making a Path for each file
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise
    return status.st_ino if stat.S_ISREG(status.st_mode) else None


def _directories(directory: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """Yield a directory and its subdirectories, also through links, without cycles.

    `above` are the parent directories.
    """
    try:
        status = os.stat(directory or os.curdir)  # noqa: PTH116 - spares making a Path for each directory
        if not stat.S_ISDIR(status.st_mode) or (identity := (status.st_dev, status.st_ino)) in above:
            return
        with os.scandir(directory or os.curdir) as entries:
            inside = [
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and (entry.is_symlink() or entry.is_dir())
            ]
    except OSError as error:
        _tell(directory, error)
        return
    yield directory
    for name in inside:
        yield from _directories(os.path.join(directory, name), above | {identity})  # noqa: PTH118 - see above


def _tell(directory: str, error: OSError) -> None:
    if error.errno not in _USUAL:
        _warn(directory or os.curdir, error.strerror or str(error))


@lru_cache(maxsize=1_000)
def _warn(directory: str, reason: str) -> None:
    # The problem is logged only once, because each scan finds it again.
    _log.warning("The directory %s cannot be listed, so that no new files in it are found: %s", directory, reason)
