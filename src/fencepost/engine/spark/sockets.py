"""Unix domain sockets between the JVM of a local session and Python.

On TCP the answer of each job waits 40 ms for a delayed acknowledgement, as Spark writes it in two small parts. The sockets
have no secret, so they are in a folder that only this user can enter.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ENABLED: Final = "spark.python.unix.domain.socket.enabled"
_FOLDER: Final = "spark.python.unix.domain.socket.dir"
_NAME: Final = len("/.") + len("01234567-89ab-cdef-0123-456789abcdef") + len(".sock")
_LONGEST_PATH: Final = 103
"""The bytes that the path of a socket may have on all systems."""


class SocketFolder:
    """A folder for the sockets of one session at a time."""

    def __init__(self) -> None:
        """Creates nothing."""
        self._path: Path | None = None

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings to add to those of a session.

        They name the folder, which is created, or say that TCP is used, as its path is too long.
        """
        if settings.get(ENABLED, "").strip().lower() != "true" or _FOLDER in settings:
            return {}
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="fencepost-spark-"))
        if len(os.fsencode(self._path)) + _NAME <= _LONGEST_PATH:
            return {_FOLDER: str(self._path)}
        self.remove()
        return {ENABLED: "false"}

    def remove(self) -> None:
        """Remove the folder, if there is one, and what a JVM that was killed left in it."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None
