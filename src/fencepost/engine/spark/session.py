"""The Spark session of a worker: started when it is first needed, completely removed when it is stopped.

Its settings are in `session_settings`.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors.exceptions import captured
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from fencepost.api.errors import ConfigError
from fencepost.embedded.java import Java, find_java
from fencepost.embedded.process import UTF_8
from fencepost.engine.errors import SparkStartError
from fencepost.engine.job_failure import JobFailure
from fencepost.engine.spark import sockets
from fencepost.engine.spark.background_start import BackgroundStart
from fencepost.engine.spark.session_settings import REQUIRED, check_settings, is_local, session_settings

logger = logging.getLogger(__name__)

_LAUNCH: Final = threading.Lock()

_STARTING_SECONDS: Final = 2.0
"""How long a stop waits for a start in progress."""

_VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
_SECURITY_ACTION: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_LAST_WITH_SECURITY_ACTION: Final = 23

_JAVA_WITHOUT: Final = """#!/bin/sh
# Spark always asks for jdk.incubator.vector, which only its machine learning uses. Some JVMs lack it and do not start.
# It also asks for a package that newer ones lack, which they warn of.
for argument do
  shift
  case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


def _check_foreign(context: SparkContext) -> None:
    # Not `getConf`, which adds the JVM's defaults.
    configuration = context._jsc.sc().conf()  # noqa: SLF001 - see above
    try:
        check_settings({name: configuration.get(name) for name in REQUIRED if configuration.contains(name)})
    except ConfigError as error:
        raise ConfigError(
            f"This process has a Spark session that fencepost did not start, of the program that embeds it or of a "
            f"connector: {error} where it is made, or let fencepost start it",
            name=error.name,
        ) from None


class LazySession:
    """Starts a session at its first use. Safe to use from several threads.

    A SparkContext that is there already, of a program that embeds fencepost, is used and left alone at the end. A
    started session is stopped at the latest when the interpreter ends: otherwise running jobs would report lost
    connections.
    """

    def __init__(self, settings: Mapping[str, str], *, import_path: Sequence[str] = ()) -> None:
        self._settings = session_settings(settings, import_path=import_path)
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._owned = False
        self._local = is_local(self._settings)
        self._background = BackgroundStart(self.get)
        self._sockets = sockets.SocketFolder()
        self._stop_due = threading.Event()
        """Set by a stop that came while a session was being started: who starts it ends it."""

    @property
    def started(self) -> bool:
        """Whether there is a session, and thus a JVM."""
        return self._session is not None

    def get(self) -> SparkSession:
        """The session, another one if it was stopped or its JVM died.

        Raises SparkStartError, or JavaNotFoundError without a Java.
        """
        with self._lock:
            if self._session is not None and self._jvm_died():
                logger.warning("The JVM of Spark has died: another one is started")
                _forget(self._session)
                self._session = None
            elif self._session is not None and _is_stopped(self._session):
                logger.warning(
                    "The Spark session was stopped, by a connector that called stop() or by Spark itself: another one "
                    "is started. All tasks of a worker share the session, so no connector may stop it"
                )
                _discard(self._session)
                self._session = None
            if self._session is None:
                try:
                    self._session = self._start()
                except BaseException:
                    # There is nothing to end for a stop that came meanwhile, and a later start is not its concern.
                    self._stop_due.clear()
                    raise
            session = self._session
            if self._stop_due.is_set():
                self._end()
                raise SparkStartError("Spark was stopped while it started")
            return session

    def ready(self, *, start: bool) -> bool:
        """Return whether a job would start at once. If not, `start` Spark in the background, or leave it.

        Always true with a master that is not local: only its executors may be able to read the job's input.
        """
        if not self._local:
            return True
        if self._session is not None and not self._jvm_died():
            # A job would wait for the first one.
            return not self._background.under_way
        if start:
            self.warm_up()
        return False

    def _jvm_died(self) -> bool:
        return self._owned and not _jvm_runs()

    def warm_up(self, quiet: Callable[[], bool] | None = None) -> None:
        """Start the session in the background, and run a first job, unless that is under way or failed recently.

        With `quiet` it waits until that returns True. A failure is logged, and raised again by `get`.
        """
        if self._session is None or self._jvm_died():
            self._background.begin(quiet)

    def stop(self) -> None:
        """End the session, its JVM and its Python workers. A later `get` starts another one.

        A session that is still being started is ended once it has started, or with this process.
        """
        self._background.expect_failure()
        if not self._lock.acquire(timeout=_STARTING_SECONDS):
            self._stop_due.set()
            # The start may have ended just before that.
            if not self._lock.acquire(blocking=False):
                logger.debug("Spark is still starting: this does not wait for it, and it ends once it has started")
                return
        try:
            self._end()
        finally:
            self._lock.release()

    def _end(self) -> None:
        self._stop_due.clear()
        session, self._session = self._session, None
        if session is not None and self._owned:
            atexit.unregister(self._stop_at_exit)
            _stop(session)
        self._sockets.remove()

    def _stop_at_exit(self, started_by: int) -> None:
        # A process that was forked from this one has the same connections to the JVM.
        if os.getpid() == started_by:
            self.stop()

    def _start(self) -> SparkSession:
        """Start on a separate thread: on the main thread pyspark would replace the handler of SIGINT."""
        outcome: list[SparkSession | BaseException] = []

        def start() -> None:
            try:
                outcome.append(self._open())
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
                outcome.append(error)

        # A daemon: a worker that ends does not wait for a JVM that may never start. The JVM ends with the worker.
        thread = threading.Thread(target=start, name="spark-start", daemon=True)
        thread.start()
        thread.join()
        result = outcome[0]
        if isinstance(result, BaseException):
            raise result
        return result

    def _open(self) -> SparkSession:
        _read_no_traces()
        existing = SparkContext._active_spark_context  # noqa: SLF001 - the only way to ask without creating one
        self._owned = existing is None
        if existing is not None:
            _check_foreign(existing)
            return SparkSession.builder.getOrCreate()
        java = find_java()
        with _LAUNCH, _environment(java, self._settings):
            _quiet_query_errors()
            settings = self._settings | self._sockets.settings(self._settings)
            builder = SparkSession.builder.config(map=dict[str, bool | float | int | str | None](settings))
            try:
                session = builder.getOrCreate()
            except Exception as error:
                # Before its JVM ends, which knows the causes.
                failure = JobFailure.of(error)
                _end_jvm()
                self._sockets.remove()
                raise SparkStartError(
                    f"Spark did not start with master {self._settings['spark.master']}: {failure.one_line}. "
                    "Check the spark.* settings and the messages of the JVM above"
                ) from error
            atexit.unregister(self._stop_at_exit)
            atexit.register(self._stop_at_exit, os.getpid())
        # A connector may have started one in the meantime, which is then the one that there is.
        _check_foreign(session.sparkContext)
        return session


def _read_no_traces() -> None:
    """Prevent pyspark from opening files that are named in an error's text if that looks like a Python trace.

    The text may quote data, and data may name an endless file, or a pipe without a writer.
    """
    setattr(captured, "recover_python_exception", lambda error: error)  # noqa: B010 - pyspark has no setting for it


def _quiet_query_errors() -> None:
    """Prevent pyspark from printing each SQL error as JSON on stderr: it raises them as well."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _environment(java: Java, settings: Mapping[str, str]) -> Iterator[None]:
    """Set the environment variables of pyspark's launcher, while it launches.

    PYSPARK_PYTHON stays: pyspark reads it again later.
    """
    os.environ["PYSPARK_PYTHON"] = settings.get("spark.pyspark.python", sys.executable)
    with tempfile.TemporaryDirectory(prefix="fencepost-java-") as home:
        launching = {"JAVA_HOME": make_java_home(java, Path(home)), **UTF_8}
        before = {name: os.environ.get(name) for name in launching}
        os.environ |= launching
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


def make_java_home(java: Java, folder: Path) -> str:
    """Create a JAVA_HOME in `folder` with which Spark's launchers start `java`; returns it."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    dropped = [_VECTOR_MODULE] if java.version <= _LAST_WITH_SECURITY_ACTION else [_VECTOR_MODULE, _SECURITY_ACTION]
    program.write_text(
        _JAVA_WITHOUT.format(dropped=" | ".join(dropped), java=str(java.executable).replace("'", "'\\''"))
    )
    program.chmod(0o700)
    return str(folder)


def _stop(session: SparkSession) -> None:
    """Stop the session and then its JVM, which pyspark would keep until the interpreter ends."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
            session.stop()
    except (Py4JError, OSError):
        # A signal that was sent to the whole process group has ended the JVM as well.
        _forget(session)
    else:
        _end_jvm()


def _is_stopped(session: SparkSession) -> bool:
    """Whether the session's SparkContext has ended while the JVM may run on."""
    context = session.sparkContext._jsc  # noqa: SLF001 - pyspark has no public way to ask
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True


def _discard(session: SparkSession) -> None:
    """Make pyspark and the JVM forget a session that was stopped, so that another one can be made in the same JVM."""
    try:
        session.stop()
    except (Py4JError, OSError):
        _forget(session)


def _jvm_runs() -> bool:
    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark does not tell
    return gateway is not None and (gateway.proc is None or gateway.proc.poll() is None)


def _forget(session: SparkSession) -> None:
    """Make pyspark forget a session whose JVM is gone; `stop` would want to talk to it."""
    accumulators = session.sparkContext._accumulatorServer  # noqa: SLF001 - a thread and a socket of this process
    if accumulators is not None:
        accumulators.shutdown()
    SparkContext._active_spark_context = None  # noqa: SLF001 - so that another session is made
    SparkSession._instantiatedSession = None  # noqa: SLF001 - likewise
    _end_jvm()


def _end_jvm() -> None:
    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark has no public way to end its JVM
    if gateway is None:
        return
    process = gateway.proc
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - so that another session gets another JVM
    if process is not None:
        process.stdin.close()
        process.wait()
