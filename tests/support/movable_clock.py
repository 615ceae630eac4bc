"""A wall clock that tests move under running processes; their monotonic clock is the machine's.

libfaketime asks a file's time of modification for it, at each call. Of the ways to tell it the time this one alone may be
used in signal handlers, where PostgreSQL asks for the time, and in threads: it is a system call without a lock or memory.
Reading it from a file takes the lock of the allocator, and hangs for ever where such a signal comes in the midst of that.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from pathlib import Path
from typing import Final

from fencepost.embedded.postgres import EmbeddedPostgres

_SETTINGS: Final = {
    "FAKETIME": "%",
    # The time is the file's, and what has passed since the process was started.
    "FAKETIME_DONT_RESET": "1",
    "FAKETIME_NO_CACHE": "1",
    "FAKETIME_DISABLE_SHM": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "DONT_FAKE_MONOTONIC": "1",
    "NO_FAKE_STAT": "1",
    # In milliseconds: threads that wait for Python's global lock would else not wait at all, as libfaketime compares
    # the monotonic time of the end with the wall clock. Nothing else here waits for a condition with an end.
    "FAKETIME_WAIT_MS": "5",
}


class MovableClock:
    """The wall clock of a process that is started with `environment`, right to a second or two if it is not moved."""

    def __init__(self, folder: Path) -> None:
        """Keep the clock in a folder, which the user of the process may enter."""
        folder.mkdir(mode=0o755, exist_ok=True)
        self._ahead = 0
        self._file = folder / "clock"
        library = shutil.copy(_library(), folder)
        self.environment = {**_SETTINGS, "LD_PRELOAD": str(library), "FAKETIME_FOLLOW_FILE": str(self._file)}
        self.begin()

    def begin(self) -> None:
        """Set the clock for a process that is started next."""
        self._file.touch()
        now = int(time.time()) + self._ahead
        os.utime(self._file, (now, now))

    def move(self, seconds: int) -> None:
        """Let the clock be so far ahead of the machine's, or behind it."""
        now = int(self._file.stat().st_mtime) + seconds - self._ahead
        self._ahead = seconds
        os.utime(self._file, (now, now))


def clocked_programs(clock: MovableClock, folder: Path, real: EmbeddedPostgres) -> Path:
    """Fill a new folder with the programs of `real`, and a `postgres` that has this clock; return it.

    Signal handlers that interrupt a wait have the machine's clock, so the timer that finds deadlocks does not ring while
    this one is ahead of that.
    """
    folder.mkdir(mode=0o755)
    postgres = real.program("postgres")
    for program in postgres.parent.iterdir():
        (folder / program.name).symlink_to(program)
    variables = " ".join(f"{name}={value}" for name, value in clock.environment.items())
    wrapped = folder / "postgres"
    wrapped.unlink()
    wrapped.write_text(f'#!/bin/sh\nexport {variables}\nexec {postgres} "$@"\n')
    wrapped.chmod(0o755)
    return folder


def _library() -> Path:
    # Not imported: the package would start this process again with the library.
    spec = importlib.util.find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
