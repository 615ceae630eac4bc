"""Unix domain sockets between the JVM of a local session and Python.

With TCP, the answer of each job waits 40 ms for a delayed acknowledgement, because Spark writes it in two small parts.
Spark does not authenticate connections over Unix domain sockets, so the sockets are in a folder that only this user can
enter.

A process locks its folder while it uses the folder. A lock ends with its process: if a process was killed, its folder
is removed when another process needs a folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

ENABLED: Final = "spark.python.unix.domain.socket.enabled"
_FOLDER: Final = "spark.python.unix.domain.socket.dir"
_PREFIX: Final = "fencepost-sockets-"
_NAME: Final = len("/.") + len("01234567-89ab-cdef-0123-456789abcdef") + len(".sock")
_LONGEST_PATH: Final = 103
"""The maximum number of bytes of a socket's path that all systems allow."""


class SocketFolder:
    """A folder for the sockets of a session. It serves one session at a time."""

    def __init__(self) -> None:
        """Create the object, but no folder yet."""
        self._path: Path | None = None
        self._lock: int | None = None
        """The descriptor that holds the lock of the folder."""

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings to add to the settings of a session.

        The settings name the folder, which is created. If its path is too long, or if it cannot be locked, the settings
        say that TCP is used.
        """
        if settings.get(ENABLED, "").strip().lower() != "true" or _FOLDER in settings:
            return {}
        if self._path is None and not self._create():
            return {ENABLED: "false"}
        return {_FOLDER: str(self._path)}

    def remove(self) -> None:
        """Remove the folder, if it exists, and files of a killed JVM in it."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _create(self) -> bool:
        """Create and lock a folder. Return whether that succeeded, and the path is short enough for sockets."""
        _remove_abandoned(Path(tempfile.gettempdir()))
        while True:
            path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            if len(os.fsencode(path)) + _NAME > _LONGEST_PATH:
                path.rmdir()
                return False
            lock = _locked(path, fcntl.LOCK_EX)
            # Another process may have found and removed the folder before it was locked.
            if path.exists():
                self._path, self._lock = path, lock
                break
            if lock is not None:
                os.close(lock)
        if self._lock is None:
            self.remove()
        return self._path is not None


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of this user's processes that have ended without removing them."""
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if path.lstat().st_uid != os.getuid():
                continue
            lock = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _locked(path: Path, operation: int) -> int | None:
    """Lock a folder, and return the descriptor that holds the lock; None if the folder cannot be locked now."""
    try:
        found = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(found, operation)
    except OSError:
        os.close(found)
        return None
    return found
