"""The command `fencepost` in processes that are forked from one which has imported it.

An interpreter needs a second of CPU time to import a worker's modules, and some tests start a hundred workers. A forked
process is a separate one all the same: with its own arguments, environment, output and session, and it can be killed as
abruptly.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fencepost import failpoint
from fencepost.cli.main import run

_FORKS: Final = multiprocessing.get_context("forkserver")
_PRELOADED: Final = (
    "fencepost.connectors.files.stream_source",
    "fencepost.converters",
    "fencepost.rest.resources",
    "fencepost.rest.server",
    "fencepost.herder.distributed.herder",
    "fencepost.herder.standalone.herder",
)
_FORKS.set_forkserver_preload([__name__, *_PRELOADED])

_PR_SET_PDEATHSIG: Final = 1


class ForkedProcess:
    """The parts of `subprocess.Popen` that tests need."""

    def __init__(self, arguments: Sequence[str], log_file: Path, environment: Mapping[str, str]) -> None:
        self._process = _FORKS.Process(target=_command, args=(list(arguments), str(log_file), dict(environment)))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """The exit code, or the negative number of the signal that killed the process; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0.0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            # The parent process may have noticed the end already, before this one does.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)


def _command(arguments: list[str], log_file: str, environment: dict[str, str]) -> None:
    """Run the command in the process that was forked for it."""
    os.setsid()
    # The kernel ends the parent process with the test process.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    os.environ.update(environment)
    # The module reads the environment when it is imported.
    importlib.reload(failpoint)
    sys.exit(run(arguments))
