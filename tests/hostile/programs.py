"""The commands of fencepost as processes, and waits for conditions."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.05
# Polls take CPU time from the process that is being waited for.
_LONGEST_POLL_SECONDS = 0.2
_POLL_SHARE = 0.05
_STOP_SECONDS = 30.0

T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str | Callable[[], str], timeout: float = TIMEOUT_SECONDS) -> T:
    """Wait until `condition` returns something true, and return that."""
    start = time.monotonic()
    while not (result := condition()):
        waited = time.monotonic() - start
        if waited >= timeout:
            raise AssertionError(f"not within {timeout:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(min(max(_POLL_SECONDS, waited * _POLL_SHARE), _LONGEST_POLL_SECONDS))
    return result


def wait_for_some(condition: Callable[[], object], timeout: float = 5.0) -> None:
    """Wait for a condition that may never be true, and go on after that."""
    with contextlib.suppress(AssertionError, OSError, http.client.HTTPException):
        wait_for(condition, "", timeout)


def unique(prefix: str) -> str:
    """A unique name."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def free_port() -> int:
    """A port of the loopback that was free just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Program:
    """The command `fencepost` with arguments, in its own process group; its output is in a file."""

    def __init__(self, *arguments: str, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        command = [sys.executable, "-m", "fencepost", *arguments]
        # The kernel ends the process with the test process.
        leash = shutil.which("setpriv")
        if leash is not None:
            command = [leash, "--pdeathsig", "TERM", *command]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def wait(self, timeout: float = TIMEOUT_SECONDS) -> int:
        """Wait for the end and return the exit code."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {timeout:g} s:\n{self.output[-4000:]}") from None

    def stop(self) -> int:
        """Stop it gracefully with SIGTERM, and return the exit code."""
        self.send(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """End it at once with SIGKILL if it still runs, with all its child processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it with all its child processes, in any state."""
        if self.running:
            self.send(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        self.end()


def command(*arguments: str, timeout: float = TIMEOUT_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run `fencepost` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "fencepost", *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )
