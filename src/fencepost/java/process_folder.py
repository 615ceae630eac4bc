"""This process's folder in the temporary directory. Its JVMs have their sockets there.

The folder is removed when the process ends. If a process was killed, the next process that makes such a folder removes
the old one: a lock on a file in the folder shows whether its process is alive.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

_PREFIX: Final = "fencepost-jvms-"
_LOCK: Final = "lock"


class ProcessFolder:
    """Makes the folder when a path in it is first requested. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._numbers = itertools.count()
        self._folder: Path | None = None
        self._lock: int | None = None

    def new_path(self) -> Path:
        """Return a new path in the folder, short enough for a socket's name. Raises OSError."""
        with self._guard:
            if self._folder is not None and not self._folder.is_dir():
                # Some systems remove old files from the temporary directory, so the folder may be gone.
                self._remove()
            if self._folder is None:
                self._make()
            assert self._folder is not None  # noqa: S101 - just made
            return self._folder / str(next(self._numbers))

    def close(self) -> None:
        """Remove the folder."""
        with self._guard:
            self._remove()

    def _remove(self) -> None:
        if self._folder is not None and self._lock is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)
            self._folder = self._lock = None

    def _make(self) -> None:
        _remove_abandoned()
        while self._folder is None:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = _locked(folder / _LOCK)
            if lock is None:
                # In the moment before the folder was locked, another process considered it abandoned and removed it.
                shutil.rmtree(folder, ignore_errors=True)
            else:
                self._folder, self._lock = folder, lock


def _remove_abandoned() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        # Lock files of other users cannot be opened.
        with suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


def _locked(path: Path) -> int | None:
    """Create and lock the file; None if it was removed meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        if path.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return None


FOLDER: Final = ProcessFolder()
"""The folder of this process."""
atexit.register(FOLDER.close)
