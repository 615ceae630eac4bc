"""A wall clock that tests move for running processes; their monotonic clock is the machine's.

libfaketime reads the time from a file's modification time at each call. Only this way is safe in threads and in signal
handlers, where PostgreSQL reads the clock: it is a system call without a lock or memory. A read of the file's content
takes the allocator's lock, and hangs for ever if a signal comes during that.
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
    # The time is the file's, plus the time since the process was started.
    "FAKETIME_DONT_RESET": "1",
    "FAKETIME_NO_CACHE": "1",
    "FAKETIME_DISABLE_SHM": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "DONT_FAKE_MONOTONIC": "1",
    "NO_FAKE_STAT": "1",
    # In milliseconds: otherwise threads that wait for Python's GIL would not wait at all, as libfaketime compares the
    # monotonic deadline with the wall clock. Nothing else here uses a condition with a timeout.
    "FAKETIME_WAIT_MS": "5",
}


class MovableClock:
    """The wall clock of a process started with `environment`; accurate to a second or two while it is not moved."""

    def __init__(self, folder: Path) -> None:
        """Keep the clock in a folder that the process's user may enter."""
        folder.mkdir(mode=0o755, exist_ok=True)
        self._ahead = 0
        self._file = folder / "clock"
        library = shutil.copy(_library(), folder)
        self.environment = {**_SETTINGS, "LD_PRELOAD": str(library), "FAKETIME_FOLLOW_FILE": str(self._file)}
        self.begin()

    def begin(self) -> None:
        """Set the clock for the next process that is started."""
        self._file.touch()
        now = int(time.time()) + self._ahead
        os.utime(self._file, (now, now))

    def move(self, seconds: int) -> None:
        """Set the clock this far ahead of the machine's clock, or behind it."""
        now = int(self._file.stat().st_mtime) + seconds - self._ahead
        self._ahead = seconds
        os.utime(self._file, (now, now))


def clocked_programs(clock: MovableClock, folder: Path, real: EmbeddedPostgres) -> Path:
    """Fill a new folder with the programs of `real`, and a `postgres` with this clock; return it.

    Signal handlers that interrupt a wait use the machine's clock, so PostgreSQL's deadlock timer does not fire while
    this clock is ahead.
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
    # The package is not imported, because it would restart this process with the library.
    spec = importlib.util.find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
