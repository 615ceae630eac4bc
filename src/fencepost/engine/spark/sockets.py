"""Unix domain sockets between the JVM of a local session and Python.

On TCP the answer of each job waits 40 ms for a delayed acknowledgement, as Spark writes it in two small parts. The sockets
have no secret, so they are in a folder that only this user can enter.

A process has its folder locked while it uses it. A lock ends with its process: the folder of one that was killed is
removed when another process needs a folder.
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
"""The bytes that the path of a socket may have on all systems."""


class SocketFolder:
    """A folder for the sockets of one session at a time."""

    def __init__(self) -> None:
        """Creates nothing."""
        self._path: Path | None = None
        self._lock: int | None = None
        """The descriptor that has the folder locked."""

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings to add to a session's.

        They name the folder, which is created, or say that TCP is used, as its path is too long or it cannot be locked.
        """
        if settings.get(ENABLED, "").strip().lower() != "true" or _FOLDER in settings:
            return {}
        if self._path is None and not self._create():
            return {ENABLED: "false"}
        return {_FOLDER: str(self._path)}

    def remove(self) -> None:
        """Remove the folder, if it exists, with the remains of a killed JVM."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _create(self) -> bool:
        """Create and lock a folder. Return whether there is one that sockets can be in."""
        _remove_abandoned(Path(tempfile.gettempdir()))
        while True:
            path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            if len(os.fsencode(path)) + _NAME > _LONGEST_PATH:
                path.rmdir()
                return False
            lock = _locked(path, fcntl.LOCK_EX)
            # Another process may have found it before it was locked.
            if path.exists():
                self._path, self._lock = path, lock
                break
            if lock is not None:
                os.close(lock)
        if self._lock is None:
            self.remove()
        return self._path is not None


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of this user's processes that have ended without doing so."""
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if path.lstat().st_uid != os.getuid():
                continue
            lock = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _locked(path: Path, operation: int) -> int | None:
    """Return a descriptor of a folder that has it locked, None if it is locked elsewhere or cannot be."""
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
