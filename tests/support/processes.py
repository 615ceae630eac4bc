"""Real processes for tests, and waits for conditions."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from fencepost.embedded.process import launch
from tests.support.forked import ForkedProcess

_TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.02
# Polls take CPU time from the process that is being waited for.
_LONGEST_POLL_SECONDS = 0.1
_POLL_SHARE = 0.05

T = TypeVar("T")


def wait_for(condition: Callable[[], T], timeout: float = _TIMEOUT_SECONDS, *, what: str = "") -> T:
    """Wait until `condition` returns something true, and return that."""
    start = time.monotonic()
    while not (result := condition()):
        waited = time.monotonic() - start
        assert waited < timeout, f"not within {timeout} s: {what or condition}"
        time.sleep(min(max(_POLL_SECONDS, waited * _POLL_SHARE), _LONGEST_POLL_SECONDS))
    return result


class Process:
    """A program with its output in a file. The kernel ends it with the test process.

    Use it with `with`: at the end of the block it is killed if it still runs, with its child processes.
    """

    def __init__(self, command: Sequence[str], log_file: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.log_file = log_file
        changed = [f"{name}={value}" for name, value in (environment or {}).items()]
        # Background jobs of a shell ignore SIGINT, and pass that on to the tests and their child processes.
        env = ["/usr/bin/env", "--default-signal=INT", *changed]
        self._process: subprocess.Popen[bytes] | ForkedProcess = launch([*env, *command], log_file)

    @classmethod
    def fencepost(cls, *arguments: str, log_file: Path, environment: Mapping[str, str] | None = None) -> Self:
        """The command `fencepost` in a separate process, started like its users start it."""
        return cls([sys.executable, "-m", "fencepost", *arguments], log_file, environment=environment)

    @classmethod
    def forked(cls, *arguments: str, log_file: Path, environment: Mapping[str, str] | None = None) -> Self:
        """Like `fencepost`, in a tenth of the time: forked from a process that has imported it."""
        process = cls.__new__(cls)
        process.log_file = log_file
        process._process = ForkedProcess(arguments, log_file, environment or {})
        return process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self.log_file.read_text(errors="replace")

    def wait(self, timeout: float = _TIMEOUT_SECONDS) -> int:
        """Wait for the end; returns the exit code, negative for the signal that killed it."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s:\n{self.output[-4000:]}") from None

    def wait_for_output(self, text: str, timeout: float = _TIMEOUT_SECONDS) -> None:
        """Wait until the output contains `text`."""
        wait_for(lambda: text in self.output or not self.running, timeout, what=f"{text!r} in {self.log_file}")
        assert text in self.output, f"ended without writing {text!r}:\n{self.output[-4000:]}"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill this process alone with SIGKILL; its child processes notice that themselves, or live on."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # `launch` made the process a session leader, so its group still has its children after its end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
