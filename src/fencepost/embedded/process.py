"""Runs a server as a child process that ends when its parent ends.

A test process or `fencepost broker` may be killed at any moment. Then the server must not survive and keep its port and
its memory. On Linux the kernel ensures that (PR_SET_PDEATHSIG); on other systems an exit handler tries to do so.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

# A program that asks the kernel to kill it when its parent dies, or exits if the parent is already gone, and then
# executes the given command. A function that runs between fork and exec would do the same, but may deadlock in a
# process with threads. The user is changed here, and not by subprocess: the other user may not be allowed to read the
# files of this Python. A change of the user clears the death signal, so it comes first.
_DIE_WITH_PARENT: Final = """
import ctypes, os, signal, sys
parent, user, group = map(int, sys.argv[1:4])
if user:
    os.chdir("/")
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != parent:
    os.kill(os.getpid(), signal.SIGKILL)
os.execv(sys.argv[4], sys.argv[4:])
"""

# The kernel treats the forking thread as the parent. So all children are forked by this thread, which lives to the end.
_LAUNCHER: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fencepost-launcher")

_CHILDREN: Final[weakref.WeakSet[subprocess.Popen[bytes]]] = weakref.WeakSet()


UTF_8: Final = {"LC_ALL": "C.UTF-8"}
"""The locale in which a JVM finds files with non-ASCII names."""


class EmbeddedServer(ABC):
    """A server that is started at the beginning of a `with` block, and stopped at its end."""

    @abstractmethod
    def start(self) -> Self:
        """Start the server and wait until it can be used."""

    @abstractmethod
    def stop(self) -> None:
        """Shut the server down."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class ServerProcess:
    """The process of a server. A subclass sets `_process` in its `start`."""

    _process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        if self._process is not None:
            kill(self._process)


@dataclass(frozen=True, slots=True)
class User:
    """A user of this machine, by the numbers of the user and its group."""

    uid: int
    gid: int


def jvm_environment() -> dict[str, str]:
    """Return the environment of this process, with the locale UTF_8."""
    return os.environ | UTF_8


def launch(
    command: Sequence[str], log_file: Path | None, user: User | None = None, *, directory: str | None = None
) -> subprocess.Popen[bytes]:
    """Start `command`, and append its output to `log_file`; on Linux as another `user`, if one is given.

    Without a `log_file` the caller reads the output from the process's `stdout`. `directory` is the working directory
    of the process; None stands for the directory of this process.

    The process does not receive the terminal's Ctrl-C, because its parent stops it.
    """
    if sys.platform == "linux":
        numbers = [os.getpid(), *((user.uid, user.gid) if user else (0, 0))]
        command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, *map(str, numbers), *command]
    with nullcontext(subprocess.PIPE) if log_file is None else log_file.open("ab") as log:
        process = _LAUNCHER.submit(
            subprocess.Popen,
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=jvm_environment(),
            cwd=directory,
        ).result()
    _CHILDREN.add(process)
    return process


def terminate(process: subprocess.Popen[bytes], grace_seconds: float) -> bool:
    """Send SIGTERM to the process, and kill it after the grace period.

    Returns True if the process ended without being killed.
    """
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        kill(process)
        return False
    return True


def kill(process: subprocess.Popen[Any]) -> None:
    """End the process immediately, as kill -9 does."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()


@atexit.register
def _kill_children() -> None:
    for process in list(_CHILDREN):
        kill(process)
