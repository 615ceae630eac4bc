"""Finds the files that paths and patterns name, and watches for new ones."""

from __future__ import annotations

import errno
import fnmatch
import glob
import logging
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from fencepost.api.allowed_paths import AllowedPaths, check_path
from fencepost.api.errors import ConfigError, DataError, RetriableError
from fencepost.connectors.files.content.growing import check_file
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.stores.objects import ObjectUrl, check_allowed, is_object, objects_below, size_and_time

FILES: Final = "files"
ORDERS: Final = ("name", "time")

_NO_FILE: Final = (errno.ENOENT, errno.ELOOP)

_ANY_DIRECTORIES: Final = "**"

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")

_STOP_SECONDS: Final = 5.0

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Discovery:
    """Finds the files of paths and patterns.

    What fits a pattern and is no regular file (a directory, a pipe, a device, a link to nothing) is not a file of it.
    `by_time` orders those of a pattern by their last change, else by name. A file of a pattern is found once it has not
    changed for `settle_s` seconds and is `ready`. `clock` returns the time as `os.stat` does.
    """

    patterns: tuple[str, ...]
    allowed: AllowedPaths
    by_time: bool = False
    settle_s: float = 0.0
    clock: Callable[[], float] = time.time
    ready: Callable[[str], bool] | None = None

    def find(self, known: Sequence[str] = ()) -> list[str]:
        """Return the files, each once. Those that are `known` need not settle again, and may be gone.

        Raises ConfigError if a path names no file, or one is found that may not be read. A pattern may fit no file, but
        must begin in an allowed directory, so that an error reveals nothing about other directories. Raises RetriableError
        if a store of objects does not answer.
        """
        found: dict[str, None] = {}
        for pattern in self.patterns:
            _check_encodable(pattern)
            if is_object(pattern):
                check_object(pattern, self.allowed)
                found.update(dict.fromkeys(self._urls(pattern, known)))
                continue
            _check_no_url(pattern)
            _check_pattern(pattern, self.allowed)
            matches = self._of_pattern(pattern, set(known)) if is_pattern(pattern) else _of_path(pattern, known)
            for match in matches:
                _check_name(match)
                check_file(match, FILES, self.allowed)
            found.update(dict.fromkeys(matches))
        return list(found)

    def _of_pattern(self, pattern: str, known: set[str]) -> list[str]:
        changed = {}
        for match in dict.fromkeys(_matches(pattern)):
            try:
                status = os.stat(match)  # noqa: PTH116 - spares making a Path for each file
            except OSError as error:
                # Removed since, or a link to nothing or to itself.
                if error.errno in _NO_FILE:
                    continue
                raise
            if stat.S_ISREG(status.st_mode):
                changed[match] = status.st_mtime
        return self._settled(changed, known)

    def _urls(self, pattern: str, known: Sequence[str]) -> list[str]:
        try:
            return self._objects(pattern, set(known)) if is_pattern(pattern) else _of_url(pattern, known)
        except DataError as error:
            raise ConfigError(f"The property {FILES} names {pattern}. {error}", name=FILES) from error

    def _objects(self, pattern: str, known: set[str]) -> list[str]:
        parts = pattern.split("/")
        # The scheme, nothing, the bucket.
        fixed = max(3, next(i for i, part in enumerate(parts) if glob.has_magic(part)))
        recursive = fixed < len(parts) - 1 or parts[-1] == "**"
        found = objects_below("/".join(parts[:fixed]), recursive=recursive)
        # As for files: ** stands for any number of directories, and for all that is in them at the end.
        wanted = [*parts[fixed:], "*"] if parts[-1] == "**" else parts[fixed:]
        changed = {url: at for url, at in found.items() if _fits(url.split("/")[fixed:], wanted)}
        return self._settled(changed, known)

    def _settled(self, changed: Mapping[str, float], known: set[str]) -> list[str]:
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
        # A look inside must not tell anything of other directories.
        if not is_object(path):
            check_file(path, FILES, self.allowed)
        return self.ready(path)


def is_pattern(path: str) -> bool:
    """Return whether a path is a pattern: it has a *, ? or [, and there is no file of just this name."""
    return glob.has_magic(path) and not os.path.lexists(path)


def _matches(pattern: str) -> Iterator[str]:
    """Yield the paths of a pattern in which a part ** stands for any number of directories. Links may lead back."""
    parts = pattern.split("/")
    if _ANY_DIRECTORIES not in parts:
        yield from glob.iglob(pattern)  # noqa: PTH207 - Path.glob refuses absolute patterns
        return
    at = parts.index(_ANY_DIRECTORIES)
    before, after = "/".join(parts[:at]), parts[at + 1 :]
    if at and not before:
        before = "/"
    # As in a shell, ** at the end also stands for all files in these directories.
    rest = "/".join(after) or "*"
    for root in glob.iglob(before) if before else [before]:  # noqa: PTH207 - see above
        for directory in _directories(root):
            yield from _matches(os.path.join(glob.escape(directory), rest))  # noqa: PTH118 - keeps a relative path as it is


def _directories(directory: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """Yield a directory and those below it, also behind links, but none inside of itself. `above` are those it is in."""
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
    except OSError:
        # Removed since, or closed to the worker; a link to nothing.
        return
    yield directory
    for name in inside:
        yield from _directories(os.path.join(directory, name), above | {identity})  # noqa: PTH118 - see above


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
    """Raise ConfigError for a URL that may not be read, or names no object."""
    parts = ObjectUrl.of(url)
    try:
        check_allowed(url, allowed)
        parts.check()
    except ConfigError as error:
        raise ConfigError(f"The property {FILES} is refused. {error}", name=FILES) from None
    if not parts.path or glob.has_magic(parts.host):
        raise ConfigError(
            f"The property {FILES} names {url}: name objects in one bucket, for example s3://my-bucket/in/*.csv",
            name=FILES,
        )


def _of_url(url: str, known: Sequence[str]) -> list[str]:
    if url in known or size_and_time(url) is not None:
        return [url]
    raise ConfigError(
        f"The property {FILES} names {url}, but there is no such object: put it there, or correct the URL", name=FILES
    )


def _of_path(path: str, known: Sequence[str]) -> list[str]:
    if path in known and not os.path.exists(path):  # noqa: PTH110 - spares making a Path for each file
        return []
    if not os.path.lexists(path):
        raise ConfigError(
            f"The property {FILES} names {path}, but there is no such file: create it, or correct the path. "
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
            f"The property {FILES} names {path}, which is no regular file, but a pipe, a socket or a device: its content "
            "cannot be read again from an offset. Write it to a file",
            name=FILES,
        )
    return [path]


def _check_name(path: str) -> None:
    """Raise ConfigError for a name that is not UTF-8: it would be in source offsets, which are text."""
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
        raise ConfigError(f"The property {FILES} names {path!a}, which is no text: correct it", name=FILES) from None


def _check_locale(path: str) -> None:
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise ConfigError(
            f"The property {FILES} names {path!a}, but the locale of this process has the encoding {encoding} for the names "
            "of files: set the environment variable PYTHONUTF8=1, or LC_ALL=C.UTF-8, and start the worker again",
            name=FILES,
        ) from None


def reads_directory(pattern: str, directory: str) -> bool:
    """Return whether files in a directory fit a pattern, or are its path, if their names do."""
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


class FileWatch:
    """Looks for files that are new, or have the name of another one now, at an interval, on a thread of its own.

    Files that are known keep their order: new ones follow them. Those that are gone are forgotten when others change,
    because the tasks change then anyway. `on_change` and `on_error` are called on
    the watch's thread; after an error it ends.
    """

    def __init__(
        self,
        discovery: Discovery,
        *,
        interval_s: float,
        on_change: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._discovery = discovery
        self._interval_s = interval_s
        self._on_change = on_change
        self._on_error = on_error
        self._stopping = threading.Event()
        self._files: tuple[str, ...] = ()
        self._inodes: dict[str, int] = {}
        self._formers: dict[str, list[str]] = {}
        self._thread = threading.Thread(target=self._run, name="file-watch", daemon=True)

    @property
    def files(self) -> Sequence[str]:
        """The known files, in the order in which they are to be read. Thread-safe."""
        return self._files

    @property
    def inodes(self) -> Mapping[str, int] | None:
        """The inode that each known file had at the last look, None if there are no further looks. Thread-safe."""
        return self._inodes if self._looks_again else None

    @property
    def formers(self) -> Mapping[str, list[str]]:
        """The names that the files of names had at the look before, whatever was committed of them. Thread-safe."""
        return self._formers

    @property
    def _looks_again(self) -> bool:
        return len(self._discovery.patterns) > 1 or any(map(is_pattern, self._discovery.patterns))

    def start(self) -> None:
        """Find the first files, and begin to watch if there is a pattern. Raises ConfigError as `Discovery.find`."""
        self._files = tuple(self._discovery.find())
        self._inodes = _inodes(self._files)
        while (again := _inodes(self._files)) != self._inodes:
            # Files are being renamed: a file may have been seen by two names.
            self._inodes = again
        if not self._files:
            _log.warning(
                "No file%s fits %s yet: waiting for one, with a look every %g seconds",
                "" if self._discovery.ready is None else " with a row",
                ", ".join(self._discovery.patterns),
                self._interval_s,
            )
        if self._looks_again:
            self._thread.start()

    def stop(self) -> None:
        """End the watch. Returns when its thread has ended, or hangs on a file system that does not answer."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                new, other = self._look()
            except RetriableError as error:
                _log.warning("%s; the next look is in %g seconds", error, self._interval_s)
                continue
            except (ConfigError, DataError, OSError) as error:
                self._on_error(error)
                return
            if new:
                _log.info("New files: %d, the first is %s", len(new), new[0])
            elif other:
                _log.info("Names with other files: %d, the first is %s", len(other), other[0])
            if new or other:
                self._on_change()

    def _look(self) -> tuple[list[str], list[str]]:
        known = set(self._files)
        # A path that was there at the start may be gone later, also when it is forgotten.
        found = self._discovery.find((*known, *self._discovery.patterns))
        new = [file for file in found if file not in known]
        inodes = _inodes(found)
        other = [path for path, inode in inodes.items() if path in known and self._inodes.get(path) != inode]
        if (new or other) and _inodes(found) != inodes:
            # Files are being renamed: a file may have been seen by two names, or by none. The next look tells.
            return [], []
        if new or other:
            there = set(found)
            kept = [file for file in self._files if file in there or os.path.exists(file)]  # noqa: PTH110 - as above
            self._formers = _formers(self._formers, self._inodes, inodes)
            self._inodes = {path: inode for path in (*kept, *new) if (inode := inodes.get(path)) is not None}
            self._files = (*kept, *new)
        return new, other


def _inodes(paths: Sequence[str]) -> dict[str, int]:
    return {path: inode for path in paths if (inode := inode_at(path)) is not None}


def _formers(known: Mapping[str, list[str]], before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the former names of files that have other ones now, and those that were known of files that are there."""
    names: dict[int, list[str]] = {}
    for path, inode in before.items():
        if now.get(path) != inode:
            names.setdefault(inode, []).append(path)
    moved = {path: names[inode] for path, inode in now.items() if before.get(path) != inode and inode in names}
    return {path: formers for path, formers in known.items() if path in now} | moved
