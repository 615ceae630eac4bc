"""Finds the files that paths and patterns name."""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, takewhile
from operator import ne
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from fencepost.api.allowed_paths import AllowedPaths, check_path
from fencepost.api.errors import ConfigError, DataError, RetriableError
from fencepost.connectors.files.content.growing import check_file
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.content.ranges import unreadable
from fencepost.connectors.files.discovery.begun import BegunFiles
from fencepost.connectors.files.discovery.directories import Listing, directories_of
from fencepost.connectors.files.discovery.spellings import spelled_once
from fencepost.connectors.files.stores.objects import ObjectUrl, is_object, objects_below, size_and_time

FILES: Final = "files"
ORDERS: Final = ("name", "time")

Entry = int | None
"""The inode in a file's directory entry, or the inode of a link's target; None for an object. See `directories`."""

PASSING: Final = frozenset(
    {
        errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ECONNRESET,
        errno.ENOTCONN, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
    }
)  # fmt: skip
"""Retriable errors of a file system, above all of a network file system."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")


@dataclass(frozen=True, slots=True)
class Discovery:
    """Finds the files of paths and patterns.

    Patterns match only regular files, not directories, pipes, devices and broken links. `by_time` orders the files of a
    pattern by their modification time; otherwise they are ordered by name. A file of a pattern is found once it has not
    changed for `settle_s` seconds and is `ready`, or if it is `begun`. `clock` returns the time in the same form as
    `os.stat`.
    """

    patterns: tuple[str, ...]
    allowed: AllowedPaths
    by_time: bool = False
    settle_s: float = 0.0
    clock: Callable[[], float] = time.time
    ready: Callable[[str], bool] | None = None
    begun: BegunFiles | None = None

    def find(self) -> list[str]:
        """Return each file once. Raises the same errors as `scan`."""
        return list(self.scan())

    def scan(self, known: Mapping[str, Entry] = MappingProxyType({})) -> dict[str, Entry]:
        """Return each file once, with its entry.

        `known` are the names that earlier scans found, with None for a name without an entry.

        For each pattern, the known files come first, then the new files in their order. Known files need not settle
        again, and may be missing. They are not checked again while their entries stay the same.

        Raises ConfigError if a path names no file, or a file may not be read. A pattern may match no file, but must
        begin in an allowed directory, so that an error reveals nothing about other directories. Raises RetriableError
        if an object store, or the server of a file system, does not answer.
        """
        try:
            return self._scan(known)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            raise RetriableError(f"The files of {', '.join(self.patterns)} cannot be listed: {error}") from error

    def _scan(self, known: Mapping[str, Entry]) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        unsettled: dict[str, Entry] = {}
        for pattern in self.patterns:
            _check_encodable(pattern)
            if is_object(pattern):
                check_object(pattern, self.allowed)
                found |= dict.fromkeys(self._urls(pattern, known))
                continue
            _check_no_url(pattern)
            _check_pattern(pattern, self.allowed)
            if is_pattern(pattern):
                settled, others = self._of_pattern(pattern, known)
                found |= settled
                unsettled |= others
            else:
                found |= self._of_path(pattern, known)
        if unsettled and self.begun is not None:
            found |= {path: unsettled[path] for path in sorted(self.begun.among(unsettled, known)) if path not in found}
        once = spelled_once(found, self.patterns, known)
        return {path: entry for path, entry in found.items() if path in once} if len(once) < len(found) else found

    def has_settled(self, path: str) -> bool:
        """Return whether a file that was found may now be read for the first time.

        Raises DataError or StaleFileError if the file's status cannot be read.
        """
        if not self.settle_s or path in self.patterns or is_object(path):
            return True
        try:
            return os.stat(path).st_mtime <= self.clock() - self.settle_s  # noqa: PTH116 - called often: spares making a Path
        except FileNotFoundError:
            return True
        except OSError as error:
            raise unreadable(path, error) from error

    def _of_path(self, path: str, known: Mapping[str, Entry]) -> dict[str, Entry]:
        found = {match: inode_at(match) for match in _of_path(path, known)}
        for match in found:
            _check_name(match)
            check_file(match, FILES, self.allowed)
        return found

    def _of_pattern(self, pattern: str, known: Mapping[str, Entry]) -> tuple[dict[str, Entry], dict[str, Entry]]:
        """Return the files of a pattern in two groups: files that are known or have settled, and all other files."""
        found: dict[str, Entry] = {}
        other: dict[str, None] = {}
        for listing in directories_of(pattern):
            found |= listing.files
            found |= listing.links
            other |= dict.fromkeys(self._checked(listing, known))
        new = {path: found.pop(path) for path in other if path not in known}
        changed = dict.fromkeys(new, 0.0)
        for path in new if self.by_time or self.settle_s else ():
            try:
                changed[path] = os.stat(path).st_mtime  # noqa: PTH116 - spares making a Path for each file
            except FileNotFoundError:
                del changed[path]
        settled = self._settled(changed, known)
        unsettled = changed.keys() - settled
        return found | {path: new[path] for path in settled}, {path: new[path] for path in unsettled}

    def _checked(self, listing: Listing, known: Mapping[str, Entry]) -> list[str]:
        """Check each path that is new or has another entry than in `known`, and return these paths."""
        files, links = (
            list(compress(entries, map(ne, entries.values(), map(known.get, entries))))
            for entries in (listing.files, listing.links)
        )
        for path in (*files, *links):
            _check_name(path)
        unsure = files and not self.allowed.allows_files_of(listing.directory, {listing.files[path] for path in files})
        for path in (*files, *links) if unsure else links:
            check_file(path, FILES, self.allowed)
        return [*files, *links]

    def _urls(self, pattern: str, known: Mapping[str, Entry]) -> list[str]:
        try:
            return self._objects(pattern, known) if is_pattern(pattern) else _of_url(pattern, known)
        except DataError as error:
            raise ConfigError(f"The property {FILES} names {pattern}. {error}", name=FILES) from error

    def _objects(self, pattern: str, known: Mapping[str, Entry]) -> list[str]:
        parts = pattern.split("/")
        # The first three parts of the URL are the scheme, an empty text, and the bucket.
        fixed = max(3, next(i for i, part in enumerate(parts) if glob.has_magic(part)))
        recursive = fixed < len(parts) - 1 or parts[-1] == "**"
        found = objects_below("/".join(parts[:fixed]), recursive=recursive)
        # As for files, ** stands for any number of directories, and at the end also for all files in these.
        wanted = [*parts[fixed:], "*"] if parts[-1] == "**" else parts[fixed:]
        changed = {url: at for url, at in found.items() if _fits(url.split("/")[fixed:], wanted)}
        return self._settled(changed, known)

    def _settled(self, changed: Mapping[str, float], known: Mapping[str, Entry]) -> list[str]:
        latest = self.clock() - self.settle_s
        settled = [
            match
            for match, at in changed.items()
            if match in known or ((not self.settle_s or at <= latest) and self._is_ready(match))
        ]
        return sorted(settled, key=lambda match: (changed[match], match)) if self.by_time else sorted(settled)

    def _is_ready(self, path: str) -> bool:
        if self.ready is None:
            return True
        # An error must not reveal anything about other directories.
        if not is_object(path):
            check_file(path, FILES, self.allowed)
        return self.ready(path)


def is_pattern(path: str) -> bool:
    """Return whether a path is a pattern: it has a *, ? or [, and no file has exactly this name."""
    return glob.has_magic(path) and not os.path.lexists(path)


def _check_no_url(path: str) -> None:
    match = _URL.match(path)
    if match is None or os.path.lexists(path):
        return
    scheme, rest = match[1].lower(), path[match.end() :]
    if scheme == "file":
        advice = f"Write the path alone: /{unquote(rest)}"
    elif scheme in {"webhdfs", "swebhdfs", "hdfs"}:
        # hdfs:/path has no host.
        named = re.sub(r"^([^/]+):\d+(?=/|$)", r"\1:8020", rest) if "://" in match[0] else f"/{rest}"
        advice = f"Write hdfs://{named}, with the host and port of the name node that fs.defaultFS of core-site.xml has"
    elif azure := re.fullmatch(r"([^@/]+)@([^./]+)\.blob\.([^/]+)/(.*)", rest, re.DOTALL):
        advice = "Write abfss://{}@{}.dfs.{}/{}".format(*azure.groups())
    else:
        advice = (
            "Mount the store as a directory of the worker and of each Spark executor (for example with rclone), copy the "
            "files to one, or read them by a data source of PySpark with pyspark_source, which reads whatever Spark's "
            "executors can"
        )
    raise ConfigError(
        f"The property {FILES} names {path}, but FileSource reads files by their path in the file system, or as "
        f"s3://bucket/key, gs://bucket/key, abfss://container@account.dfs.core.windows.net/key or hdfs://host:port/path, not by "
        f"this URL. {advice}",
        name=FILES,
    )


def check_object(url: str, allowed: AllowedPaths) -> None:
    """Raise ConfigError for a URL that may not be read, or that names no object."""
    parts = ObjectUrl.of(url)
    try:
        allowed.check_url(url)
        parts.check()
    except ConfigError as error:
        raise ConfigError(f"The property {FILES} is refused. {error}", name=FILES) from None
    if not parts.path or glob.has_magic(parts.host):
        raise ConfigError(
            f"The property {FILES} names {url}: name objects in one bucket, for example s3://my-bucket/in/*.csv",
            name=FILES,
        )


def _of_url(url: str, known: Mapping[str, Entry]) -> list[str]:
    if url in known or size_and_time(url) is not None:
        return [url]
    raise ConfigError(
        f"The property {FILES} names {url}, but the object does not exist: put it there, or correct the URL", name=FILES
    )


def _of_path(path: str, known: Mapping[str, Entry]) -> list[str]:
    if path in known and not os.path.exists(path):  # noqa: PTH110 - spares making a Path for each file
        return []
    if not os.path.lexists(path):
        raise ConfigError(
            f"The property {FILES} names {path}, but the file does not exist: create it, or correct the path. "
            "Relative paths start at the worker's working directory",
            name=FILES,
        )
    if os.path.isdir(path):  # noqa: PTH112 - as above
        raise ConfigError(
            f"The property {FILES} names {path}, which is a directory: name files in it, for example "
            f"{os.path.join(path, '*.csv')}",  # noqa: PTH118 - as above
            name=FILES,
        )
    if not os.path.exists(path):  # noqa: PTH110 - as above
        raise ConfigError(
            f"The property {FILES} names {path}, which is a link to {os.path.realpath(path)}, where nothing is: create that file, "
            "or correct the link",
            name=FILES,
        )
    if not os.path.isfile(path):  # noqa: PTH113 - as above
        raise ConfigError(
            f"The property {FILES} names {path}, which is not a regular file, but a pipe, a socket or a device: its content "
            "cannot be read again from an offset. Write it to a file",
            name=FILES,
        )
    return [path]


def _check_name(path: str) -> None:
    """Raise ConfigError for a name that is not UTF-8, because source offsets are text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        _check_locale(path)
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise ConfigError(
            f"The name of the file {shown} is not UTF-8: rename the file, or let the property {FILES} leave it out",
            name=FILES,
        ) from None


def _check_encodable(path: str) -> None:
    """Raise ConfigError for a path that cannot be the name of a file in this locale."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        _check_locale(path)
        raise ConfigError(f"The property {FILES} names {path!a}, which is not text: correct it", name=FILES) from None


def _check_locale(path: str) -> None:
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise ConfigError(
            f"The property {FILES} names {path!a}, but the locale of this process has the encoding {encoding} for the names "
            "of files: set the environment variable PYTHONUTF8=1, or LC_ALL=C.UTF-8, and start the worker again",
            name=FILES,
        ) from None


def reads_directory(pattern: str, directory: str) -> bool:
    """Return whether files in a directory could match a pattern or path, judged by their names only."""
    parts = Path(pattern).parts
    magic = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    patterns = (*Path(os.path.realpath(Path(*parts[:magic]))).parts, *parts[magic:])
    return _fits(Path(os.path.realpath(directory)).parts, patterns if parts[-1] == "**" else patterns[:-1])


def _fits(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    first, *others = patterns
    if first == "**":
        visible = len(list(takewhile(lambda part: not part.startswith("."), parts)))
        return any(_fits(parts[skipped:], others) for skipped in range(visible + 1))
    if not parts or (parts[0].startswith(".") and not first.startswith(".")):
        return False
    return (parts[0] == first or fnmatch.fnmatchcase(parts[0], first)) and _fits(parts[1:], others)


def _check_text(pattern: str) -> None:
    try:
        check_path(pattern)
    except ConfigError as error:
        raise ConfigError(f"The property {FILES} is refused. {error}", name=FILES) from None


def _check_pattern(pattern: str, allowed: AllowedPaths) -> None:
    _check_text(pattern)
    parts = Path(pattern).parts
    fixed = list(takewhile(lambda part: not glob.has_magic(part), parts))
    check_file(str(Path(*fixed)), FILES, allowed)
    if allowed.restricted and ".." in parts[len(fixed) :]:
        raise ConfigError(f"The property {FILES} names {pattern}: after a * or ? there must be no ..", name=FILES)
