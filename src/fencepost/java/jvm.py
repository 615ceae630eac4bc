"""JVMs as child processes: one for each Java connector and its tasks, and one for questions about connectors.

With `fencepost.java.isolation=worker`, one JVM runs all connectors and tasks, and also answers the questions.

        lease -> JVM starts -> is used -> the last lease is released -> JVM is killed
                                  |
                                  +-> it ends by itself, or is killed when it hangs: the next lease starts another one

The JVM's log becomes part of the worker's: each line of its output becomes a record, under the name of its Java logger.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from fencepost.api.secrets import SECRETS
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.java_settings import Isolation, JavaSettings
from fencepost.config.log_context import log_context
from fencepost.embedded.java import find_java
from fencepost.embedded.process import kill, launch
from fencepost.java.channel import Channel
from fencepost.java.class_archive import ClassArchive, chooses_archive
from fencepost.java.errors import JvmEndedError
from fencepost.java.host_jar import host_class_path
from fencepost.java.log_levels import LOGGERS
from fencepost.java.process_folder import FOLDER

_log: Final = logging.getLogger(__name__)

QUESTIONS: Final = ""
"""The name of the JVM that answers questions about connectors which are not started."""

SHARED: Final = " "
"""The name of the JVM that all connectors of a worker share."""

_SHORT_LIVED: Final = ("-XX:TieredStopAtLevel=1",)
"""Options for the JVM for questions. It runs little code, once, so Java's optimizing compiler would not pay off."""

_START_TIMEOUT_S: Final = 60.0
_END_TIMEOUT_S: Final = 2.0
_ARCHIVE_TIMEOUT_S: Final = 30.0
_STEP_S: Final = 0.01
_LAST_LINES: Final = 20
_LONGEST_LINE: Final = 1 << 20
"""The largest size of a line, in bytes. A longer line that Java code prints is split into pieces of this size."""
_LONGEST_WORDS: Final = 2_000
"""The largest number of characters that errors quote of a line, because a status must have room for the error."""
_KEPT_S: Final = 30.0
_WATCH_S: Final = 10.0
"""How often a JVM is asked for a sign of life, in seconds."""
_SILENT_S: Final = 60.0
"""How long a JVM may take to give a sign of life, in seconds. A JVM that takes longer is killed."""
_WHOSE: Final = {QUESTIONS: "that is asked about Java connectors", SHARED: "of all Java connectors"}
# A line in the format that the host's log4j2.properties defines.
_EVENT: Final = re.compile(r'\x01(\S+) (\S+) "((?:[^"\\]|\\.)*)" (.*)')
_LEVELS: Final = {"FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING, "INFO": logging.INFO}
_OUTPUT: Final = "output"
"""The logger for the output of Java code."""


class Jvm:
    """A JVM that runs the host. Thread-safe."""

    def __init__(self, name: str, settings: JavaSettings) -> None:
        """Start the JVM for a connector, or for QUESTIONS.

        Raises JvmEndedError, JarsUnavailableError or JavaNotFoundError.
        """
        self.name = name
        self._killed: str | None = None
        self._over = threading.Event()
        self._holding: Channel | None = None
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        java = find_java()
        jars = host_class_path(java)
        self._archive = ClassArchive(java, jars)
        self._new_archive: Path | None = None
        archive_options = () if chooses_archive(settings.options) else self._archive_options()
        self._socket = str(FOLDER.new_path())
        command = [
            str(java.executable),
            *settings.memory_options,
            *("-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData"),
            # Threads that a connector or task starts log under its name.
            "-Dlog4j2.isThreadContextMapInheritable=true",
            # By default, a JVM that crashes writes its report to the working directory.
            f"-XX:ErrorFile={tempfile.gettempdir()}/hs_err_pid%p.log",
            *(_SHORT_LIVED if name == QUESTIONS else ()),
            *archive_options,
            *settings.options,
            *("-cp", os.pathsep.join(map(str, jars)), "fencepost.host.Host", self._socket),
        ]
        self._process = launch(command, None, directory=settings.directory)
        self._pump = threading.Thread(target=self._read_output, name=f"java-log-{name}", daemon=True)
        self._pump.start()
        self._holding = self._first_channel()
        self._holding.call("hold", "the start of the host")
        if archive_options and self._new_archive is None:
            self._archive.drop_if_refused(self.pid)
        try:
            threading.Thread(
                target=self._watch, args=[self.channel(EOFError)], name=f"java-watch-{name}", daemon=True
            ).start()
        except (OSError, RuntimeError):
            self.kill("this process has no room for another thread or connection")
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the JVM runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def channel(self, ended: Callable[[], Exception] | None = None) -> Channel:
        """Return a new connection. If it breaks, calls raise the error of `ended`, by default a JvmEndedError.

        Raises JvmEndedError.
        """
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._socket)
        except OSError as error:
            connection.close()
            raise self.ended() from error
        return Channel(connection, ended or self.ended)

    def end(self) -> None:
        """End an unused JVM. The JVM for questions writes the archive of classes first, if there is none."""
        self._over.set()
        if self._new_archive is not None and self._holding is not None:
            # The host ends when this connection ends.
            self._holding.close()
            with suppress(subprocess.TimeoutExpired):
                # A JVM that was killed while it wrote the archive has left an incomplete file.
                if self._process.wait(_ARCHIVE_TIMEOUT_S) == 0:
                    self._archive.keep(self._new_archive)
        self.kill("it is not used any more")

    def kill(self, reason: str) -> None:
        """End the JVM at once. Later errors contain the `reason`."""
        self._over.set()
        if self.is_alive:
            self._killed = reason
        kill(self._process)
        if self._holding is not None:
            self._holding.close()
        Path(self._socket).unlink(missing_ok=True)

    def ended(self) -> JvmEndedError:
        """Return the error that says how the JVM ended, with its last output."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_TIMEOUT_S)
        self.kill("its connection broke")
        self._pump.join(_END_TIMEOUT_S)
        how = self._killed or _how(self._process.returncode)
        last = SECRETS.hidden("\n".join(self._last))
        words = f". Its last words:\n{last}" if last else ""
        return JvmEndedError(f"The JVM {self._whose} has ended: {how}{words}")

    @property
    def _whose(self) -> str:
        return _WHOSE.get(self.name, f"of connector {self.name}")

    def _watch(self, channel: Channel) -> None:
        """Kill the JVM if it does not answer at all, so that its tasks restart.

        A plugin's call that does not return is not a reason to kill it: a poll may wait for ever.
        """
        with closing(channel), suppress(EOFError):
            channel.limit(_SILENT_S)
            while not self._over.wait(_WATCH_S):
                try:
                    channel.call("ping", "a sign of life")
                except TimeoutError:
                    reason = f"it gave no sign of life for {_SILENT_S:g} s"
                    _log.warning("The JVM %s is killed: %s", self._whose, reason)
                    self.kill(reason)

    def _archive_options(self) -> tuple[str, ...]:
        """Return the options to read the archive; if there is none, the JVM for questions gets the options to write it.

        The JVM for questions writes the archive when it ends. It ends some time after connectors have started, so no
        connector waits for the archive.
        """
        found = self._archive.reading()
        if found or self.name != QUESTIONS:
            return found
        self._new_archive = FOLDER.new_path()
        return self._archive.writing(self._new_archive)

    def _first_channel(self) -> Channel:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self._socket)
            except OSError as error:
                connection.close()
                if not self.is_alive:
                    raise self.ended() from error
                if time.monotonic() > deadline:
                    self.kill(f"it did not start within {_START_TIMEOUT_S:g} s")
                    raise self.ended() from error
                time.sleep(_STEP_S)
            else:
                return Channel(connection, self.ended)

    def _read_output(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - launch() opened it
        with self._process.stdout as output:
            for raw in iter(partial(output.readline, _LONGEST_LINE), b""):
                line = raw.decode(errors="replace").rstrip("\r\n")
                self._take(*log_event(line))

    def _take(self, level: int, logger: str, task: str, text: str) -> None:
        if not text:
            return
        self._last.append(text[:_LONGEST_WORDS])
        with log_context(subject) if (subject := self._subject(task)) else nullcontext():
            logging.getLogger(f"{LOGGERS}.{logger}").log(level, "%s", text)

    def _subject(self, label: str) -> ConnectorTaskId | str | None:
        """Return the connector or task that a line of the log is about.

        The host labels lines with `name|` or `name-number`.
        """
        if label.endswith("|"):
            return label[:-1]
        connector, _, number = label.rpartition("-")
        if number.isdecimal():
            return ConnectorTaskId(connector, int(number))
        return None if self.name in _WHOSE else self.name


def log_event(line: str) -> tuple[int, str, str, str]:
    """Split a line of output into the level, the Java logger, the label of the connector or task, and the text."""
    event = _EVENT.fullmatch(line)
    if event is None:
        return logging.INFO, _OUTPUT, "", line
    level, logger, task, text = event.groups()
    return _LEVELS.get(level, logging.DEBUG), logger, _unescaped(task), _unescaped(text).rstrip()


def _unescaped(text: str) -> str:
    # A piece of a line may end in the middle of an escape.
    with suppress(ValueError):
        text = json.loads(f'"{text}"', strict=False)
    return text


def _how(code: int) -> str:
    if code == -signal.SIGKILL:
        return "it was killed (SIGKILL), by somebody or for want of memory"
    return f"by signal {-code}" if code < 0 else f"it exited with status {code}"


class JvmPool:
    """The JVMs of this process, by name. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jvms: dict[tuple[str, JavaSettings], Jvm] = {}
        self._leases: dict[Jvm, int] = {}
        self._timers: dict[Jvm, threading.Timer] = {}
        # For each JVM, a lock that exists while somebody starts the JVM, or waits for its start.
        self._starts: WeakValueDictionary[tuple[str, JavaSettings], threading.Lock] = WeakValueDictionary()

    def lease(self, name: str, settings: JavaSettings) -> Jvm:
        """Return the JVM with this name, or the shared one. It runs until all its leases are released.

        Raises the errors of Jvm's constructor.
        """
        if settings.isolation is Isolation.WORKER:
            name = SHARED
        with self._lock:
            start = self._starts.setdefault((name, settings), threading.Lock())
        with start:
            jvm = self._lease_running(name, settings)
            if jvm is None:
                jvm = Jvm(name, settings)
                with self._lock:
                    self._jvms[name, settings] = jvm
                    self._leases[jvm] = 1
        return jvm

    def _lease_running(self, name: str, settings: JavaSettings) -> Jvm | None:
        with self._lock:
            jvm = self._jvms.get((name, settings))
            if jvm is None or not jvm.is_alive:
                return None
            self._leases[jvm] += 1
            timer = self._timers.pop(jvm, None)
        if timer is not None:
            timer.cancel()
        return jvm

    def release(self, jvm: Jvm) -> None:
        """End a lease. A JVM for questions is kept for a while, because several questions often follow each other."""
        with self._lock:
            self._leases[jvm] -= 1
            if self._leases[jvm]:
                return
            if jvm.name in _WHOSE and jvm.is_alive:
                timer = self._timers[jvm] = threading.Timer(_KEPT_S, self._expire, [jvm])
                timer.daemon = True
                timer.start()
                return
        self._expire(jvm)

    def close(self) -> None:
        """Kill all JVMs, at the end of this process."""
        for jvm in list(self._jvms.values()):
            jvm.kill("the worker ends")

    def _expire(self, jvm: Jvm) -> None:
        with self._lock:
            if self._leases.get(jvm, 0):
                return
            self._leases.pop(jvm, None)
            self._timers.pop(jvm, None)
            self._jvms = {key: one for key, one in self._jvms.items() if one is not jvm}
        jvm.end()


JVMS: Final = JvmPool()
"""The JVMs of this process."""
atexit.register(JVMS.close)
