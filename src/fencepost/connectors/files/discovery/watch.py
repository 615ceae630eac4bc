"""Watches for new files, and for known names that now have another file."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import compress, filterfalse
from operator import ne
from typing import Final

from fencepost.api.errors import ConfigError, DataError, RetriableError
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.discovery.find import PASSING, Discovery, Entry, is_pattern

_STOP_SECONDS: Final = 5.0
_MANY_GONE: Final = 1_000
"""If at least this many known files are missing, they are forgotten.

If somewhat more files were missing, a task with a rule would wait for another configuration (see `sketch`).
"""
_LONGEST_END_SECONDS: Final = 30.0
"""The maximum time until a replaced task has ended.

Until a replaced task has ended, its last records may be committed under the file's old name. This time is more than the
default of task.shutdown.graceful.timeout.ms.
"""
_LEAST_FORMERS: Final = 4
_MOST_FORMERS: Final = 64
"""The bounds for the number of old names that are kept for a file. Each scan sees at most one rename of a file."""

_log: Final = logging.getLogger(__name__)


class FileWatch:
    """Scans at an interval, on a separate thread, for new files, and for known names that now have another file.

    Known files keep their order, and new files follow them. Missing files are forgotten when other files change,
    because the tasks are then configured anew anyway. They are also forgotten when many files are missing and no
    further files vanish. `on_change` and `on_error` are called on the watch's thread, which ends after an error.
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
        self._most_formers = min(_MOST_FORMERS, max(_LEAST_FORMERS, int(_LONGEST_END_SECONDS / interval_s)))
        self._on_change = on_change
        self._on_error = on_error
        self._stopping = threading.Event()
        self._files: tuple[str, ...] = ()
        self._names: frozenset[str] = frozenset()
        self._known: Mapping[str, Entry] = {}
        self._inodes: dict[str, int] = {}
        self._formers: dict[str, list[str]] = {}
        self._gone: frozenset[str] = frozenset()
        self._gone_before: frozenset[str] = frozenset()
        # The result of the last scan, if nothing in it was new.
        self._unchanged: Mapping[str, Entry] | None = None
        self._thread = threading.Thread(target=self._run, name="file-watch", daemon=True)

    @property
    def files(self) -> Sequence[str]:
        """The known files, in reading order. Thread-safe."""
        return self._files

    @property
    def inodes(self) -> Mapping[str, int] | None:
        """The inode of each known file at the last scan, None if the watch does not scan again. Thread-safe."""
        return self._inodes if self._looks_again else None

    @property
    def formers(self) -> Mapping[str, list[str]]:
        """The old names of each renamed file, as seen by the scans, whether or not offsets were committed for them.

        Thread-safe.
        """
        return self._formers

    @property
    def _looks_again(self) -> bool:
        return len(self._discovery.patterns) > 1 or any(map(is_pattern, self._discovery.patterns))

    def start(self) -> None:
        """Find the first files, and begin to watch if there is a pattern.

        Raises ConfigError as `Discovery.find` does.
        """
        found = self._discovery.scan()
        self._inodes = _inodes(found)
        while (again := _inodes(found)) != self._inodes:
            # A file is being renamed: the scan may have seen it under two names.
            self._inodes = again
        self._take(tuple(found), found)
        if not self._files:
            _log.warning(
                "No file%s fits %s yet: waiting for one, with a scan every %g seconds",
                "" if self._discovery.ready is None else " with a row",
                ", ".join(self._discovery.patterns),
                self._interval_s,
            )
        if self._looks_again:
            self._thread.start()

    def stop(self) -> None:
        """Stop watching, and wait until the thread has ended, at most 5 s: a file system may not answer."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        told = None
        while not self._stopping.wait(self._interval_s):
            try:
                new, other = self._look()
            except (RetriableError, ConfigError, DataError, OSError) as error:
                if not _passes(error):
                    self._on_error(error)
                    return
                if str(error) != told:
                    told = str(error)
                    _log.warning("%s; scans go on, one each %g seconds", error, self._interval_s)
                continue
            if told is not None:
                told = None
                _log.info("Scans work again")
            if new:
                _log.info("New files: %d, the first is %s", len(new), new[0])
            elif other:
                _log.info("Paths that now have another file: %d, the first is %s", len(other), other[0])
            if new or other or self._forget():
                self._on_change()

    def _look(self) -> tuple[list[str], list[str]]:
        found = self._discovery.scan(self._known)
        self._gone_before = self._gone
        if found == self._unchanged:
            return [], []
        new, other = self._changes(found)
        self._gone = self._names.difference(found) if found else frozenset()
        if not new and not other:
            self._unchanged = found
            return [], []
        changed = _inodes([*new, *other])
        if other or self._lacks(found, new) or self._is_elsewhere(found, new, changed):
            found = settled(self._known, self._names, found, self._discovery.scan(self._known))
            new, other = self._changes(found)
            if not new and not other:
                return [], []
        inodes = dict(self._inodes)
        missing = self._lacks(found, new)
        for path in (inodes.keys() - found.keys()) | set(other) if missing or other else ():
            inodes.pop(path, None)
        inodes |= {path: changed[path] for path in (*new, *other) if path in changed}
        kept: Sequence[str] = self._files
        if missing:
            kept = [file for file in kept if file in found or os.path.exists(file)]  # noqa: PTH110 - spares making a Path
        if missing or other:
            self._formers = _formers(self._formers, self._inodes, inodes, self._most_formers)
        self._inodes = inodes
        self._take((*kept, *new), found)
        return new, other

    def _changes(self, found: Mapping[str, Entry]) -> tuple[list[str], list[str]]:
        """Return the new names, and the known names that now have another file."""
        names, entries = self._names, found.values()
        changed = compress(found, map(ne, entries, map(self._known.get, found, entries)))
        return list(filterfalse(names.__contains__, found)), [path for path in changed if path in names]

    def _lacks(self, found: Mapping[str, Entry], new: Sequence[str]) -> bool:
        """Return whether known names are missing from the entries."""
        return len(found) - len(new) < len(self._names)

    def _forget(self) -> bool:
        """Forget missing files if there are many and none vanished between the last two scans.

        Return whether files were forgotten.
        """
        gone = self._gone
        if len(gone) < _MANY_GONE or gone != self._gone_before or any(map(os.path.exists, gone)):
            return False
        _log.info("Files that are gone: %d", len(gone))
        inodes = {path: inode for path, inode in self._inodes.items() if path not in gone}
        self._formers = _formers(self._formers, self._inodes, inodes, self._most_formers)
        self._inodes = inodes
        self._gone = frozenset()
        kept = [file for file in self._files if file not in gone]
        self._take(kept, {path: entry for path, entry in self._known.items() if path not in gone})
        return True

    def _is_elsewhere(self, found: Mapping[str, Entry], new: Sequence[str], inodes: Mapping[str, int]) -> bool:
        """Return whether a new name may have a file that also has, or had, another name.

        A scan during a rename finds a file under two names, or under none. So the scan did not run during a rename if
        no new name has such a file, and no name is missing.
        """
        entries, numbers = {found[path] for path in new} - {None}, set(inodes.values())
        return (
            sum(map(entries.__contains__, found.values())) > sum(found[path] is not None for path in new)
            or not numbers.isdisjoint(self._inodes.values())
            or len(numbers) < len(inodes)
        )

    def _take(self, files: Sequence[str], found: Mapping[str, Entry]) -> None:
        self._files, self._names, self._unchanged = tuple(files), frozenset(files), None
        # The configured paths stay known: a path that existed at the start may be missing later, even after it was
        # forgotten. A file that disappeared before its inode was read gets the entry None, so that it counts as another
        # file when it is back.
        unseen = filterfalse(self._inodes.__contains__, self._files)
        self._known = {**dict.fromkeys(self._discovery.patterns), **found, **dict.fromkeys(unseen)}


def _passes(error: Exception) -> bool:
    """Return whether another scan may succeed, because a server of files or objects does not answer properly now."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(error, RetriableError) or (isinstance(cause, OSError) and cause.errno in PASSING)


def settled(
    known: Mapping[str, Entry], names: Container[str], found: dict[str, Entry], again: dict[str, Entry]
) -> dict[str, Entry]:
    """Return the entries that were equal in two scans in a row; names that may be in a rename keep their known entries.

    A scan during a rename finds a file under two names, or under none. So if the scans differ for a name, the next scan
    decides on it, and on all names that have, or had, one of its files. `names` are the known files.
    """
    left = {path for path, _ in found.items() ^ again.items()}
    if not left:
        return found
    changed = {path for path, _ in (known.items() ^ found.items()) | (known.items() ^ again.items())}
    entries = {path: {known.get(path), found.get(path), again.get(path)} - {None} for path in changed}
    owners: dict[Entry, list[str]] = {}
    for path, numbers in entries.items():
        for number in numbers:
            owners.setdefault(number, []).append(path)
    waiting = list(left)
    while waiting:
        others = {path for number in entries[waiting.pop()] for path in owners[number]} - left
        left |= others
        waiting += others
    return {path: entry for path, entry in found.items() if path not in left} | {
        path: known[path] for path in left if path in names
    }


def _inodes(paths: Iterable[str]) -> dict[str, int]:
    return {path: inode for path in paths if (inode := inode_at(path)) is not None}


def _formers(
    known: Mapping[str, list[str]], before: Mapping[str, int], now: Mapping[str, int], most: int
) -> dict[str, list[str]]:
    """Return the old names of renamed files, including the known old names of files that still exist.

    A file that was renamed again keeps its last names: its records may yet be committed under one of them.
    """
    names: dict[int, list[str]] = {}
    for path, inode in before.items():
        if now.get(path) != inode:
            names.setdefault(inode, []).extend((path, *known.get(path, ())))
    moved = {}
    if names:
        moved = {
            path: [name for name in dict.fromkeys(names[inode]) if name != path][:most]
            for path, inode in now.items()
            if before.get(path) != inode and inode in names
        }
    return {path: formers for path, formers in known.items() if path in now} | moved
