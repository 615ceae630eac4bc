"""The Spark session of a worker. It is started when first needed, and completely removed when stopped.

The session's settings are in `session_settings`.
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
from typing import Any, Final

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
"""This lock is held while a session starts or ends, because pyspark keeps only one session, even if its JVM is dead."""

_STARTING_SECONDS: Final = 2.0
"""How long `stop` waits for a start that is in progress."""

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
    # `getConf` is not used, because it adds the JVM's defaults.
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
    """Starts a session when it is first needed. Several threads may use it.

    If a program that embeds fencepost has a SparkContext, this class uses it, and does not stop it at the end. A
    session that was started here is stopped at the latest when the interpreter ends: otherwise running jobs would
    report lost connections.
    """

    def __init__(self, settings: Mapping[str, str], *, import_path: Sequence[str] = ()) -> None:
        self._settings = session_settings(settings, import_path=import_path)
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._owned = False
        # pyspark's connection to the JVM that was started here last.
        self._gateway: object = None
        self._local = is_local(self._settings)
        self._background = BackgroundStart(self.get)
        self._sockets = sockets.SocketFolder()
        self._stop_due = threading.Event()
        """Set by `stop` while a session is starting: the thread that starts the session then ends it."""

    @property
    def started(self) -> bool:
        """Whether there is a session, and thus a JVM."""
        return self._session is not None

    def get(self) -> SparkSession:
        """The session. If it was stopped, or if its JVM died, another session is started.

        Raises SparkStartError, or JavaNotFoundError if there is no Java.
        """
        with self._lock:
            if self._session is not None and self._is_lost(self._session):
                with _LAUNCH:
                    _discard(self._session)
                self._session = None
            if self._session is None:
                try:
                    self._session = self._start()
                except BaseException:
                    # The start has failed, so a `stop` that was called meanwhile has nothing to end, and must not end a
                    # later start.
                    self._stop_due.clear()
                    raise
            session = self._session
            if self._stop_due.is_set():
                self._end()
                raise SparkStartError("Spark was stopped while it started")
            return session

    def ready(self, *, start: bool) -> bool:
        """Return whether a job could start at once. If not, and if `start` is true, start Spark in the background.

        Always True if the master is not local, because then only executors may be able to read the job's input.
        """
        if not self._local:
            return True
        if self._session is not None and not self._jvm_died():
            # While the first job runs, another job would wait for it.
            return not self._background.under_way
        if start:
            self.warm_up()
        return False

    def _is_lost(self, session: SparkSession) -> bool:
        """Whether the session cannot be used any more. A warning says why."""
        if self._jvm_died():
            logger.warning("The JVM of Spark has died: another one is started")
            return True
        if _is_stopped(session):
            logger.warning(
                "The Spark session was stopped, by a connector that called stop() or by Spark itself: another one "
                "is started. All tasks of a worker share the session, so no connector may stop it"
            )
            return True
        return False

    def _jvm_died(self) -> bool:
        return self._owned and not _jvm_runs()

    def warm_up(self, quiet: Callable[[], bool] | None = None) -> None:
        """Start the session in the background, and run a first job, unless Spark starts or a start failed recently.

        With `quiet` the start waits until `quiet` returns True. A failure is logged, and is raised again by `get`.
        """
        if self._session is None or self._jvm_died():
            self._background.begin(quiet)

    def stop(self) -> None:
        """End the session, its JVM and its Python workers. A later call of `get` starts another session.

        A session that is still starting is ended as soon as it has started, or when this process ends.
        """
        self._background.expect_failure()
        if not self._lock.acquire(timeout=_STARTING_SECONDS):
            self._stop_due.set()
            # The start may have ended just before `_stop_due` was set.
            if not self._lock.acquire(blocking=False):
                logger.debug("Spark is still starting. It is ended as soon as it has started; nobody waits for that")
                return
        try:
            self._end()
        finally:
            self._lock.release()

    def _end(self) -> None:
        self._stop_due.clear()
        session, self._session = self._session, None
        if session is None or not self._owned:
            self._sockets.remove()
            return
        with _LAUNCH:
            self._close(session)

    def _close(self, session: SparkSession) -> None:
        atexit.unregister(self._stop_at_exit)
        _stop(session)
        self._sockets.remove()

    def _stop_at_exit(self, started_by: int) -> None:
        # A process that was forked from this one shares its connections to the JVM, and must not stop the session.
        if os.getpid() == started_by:
            self.stop()

    def _start(self) -> SparkSession:
        """Start Spark on a separate thread. On the main thread, pyspark would replace the handler of SIGINT."""
        outcome: list[SparkSession | BaseException] = []

        def start() -> None:
            try:
                outcome.append(self._open())
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
                outcome.append(error)

        # The thread is a daemon: a worker that ends does not wait for a JVM that may never start. The JVM ends with the
        # worker.
        thread = threading.Thread(target=start, name="spark-start", daemon=True)
        thread.start()
        thread.join()
        result = outcome[0]
        if isinstance(result, BaseException):
            raise result
        return result

    def _open(self) -> SparkSession:
        _read_no_traces()
        with _LAUNCH:
            existing = SparkContext._active_spark_context  # noqa: SLF001 - the only way to ask without creating one
            if existing is not None and not _jvm_runs():
                logger.warning("The JVM of this program's Spark session has died: another one is started")
                _forget(existing)
                existing = None
            self._owned = existing is None
            if existing is not None:
                _check_foreign(existing)
                return SparkSession.builder.getOrCreate()
            if self._stop_due.is_set():
                raise SparkStartError("Spark was stopped before it started")
            session = self._create()
            # A connector may have started a session meanwhile. Then `session` is the connector's session.
            _check_foreign(session.sparkContext)
            if self._stop_due.is_set():
                # The session is closed at once. Otherwise another LazySession might mistake it for an embedding
                # program's session.
                self._close(session)
                raise SparkStartError("Spark was stopped while it started")
            return session

    def _create(self) -> SparkSession:
        java = find_java()
        with _environment(java, self._settings):
            _quiet_query_errors()
            settings = self._settings | self._sockets.settings(self._settings)
            builder = SparkSession.builder.config(map=dict[str, bool | float | int | str | None](settings))
            # A program that embeds fencepost may have a JVM without a session. If the JVM has died, it cannot be used.
            if not _jvm_runs():
                _end_jvm()
            gateway = SparkContext._gateway  # noqa: SLF001 - as in `_jvm_runs`
            own_jvm = gateway is None or gateway is self._gateway
            try:
                session = builder.getOrCreate()
            except Exception as error:
                # The failure is read before the JVM is ended, because only the JVM knows the causes.
                failure = JobFailure.of(error)
                if own_jvm:
                    _end_jvm()
                self._sockets.remove()
                raise SparkStartError(
                    f"Spark did not start with master {self._settings['spark.master']}: {failure.one_line}. "
                    "Check the spark.* settings and the messages of the JVM above"
                ) from error
        self._gateway = SparkContext._gateway if own_jvm else None  # noqa: SLF001 - as above
        atexit.unregister(self._stop_at_exit)
        atexit.register(self._stop_at_exit, os.getpid())
        return session


def _read_no_traces() -> None:
    """Prevent pyspark from opening files that are named in an error's text, if the text looks like a Python trace.

    The text may quote data, and the data may name an endless file, or a pipe without a writer.
    """
    setattr(captured, "recover_python_exception", lambda error: error)  # noqa: B010 - pyspark has no setting for it


def _quiet_query_errors() -> None:
    """Prevent pyspark from printing each SQL error as JSON on stderr: pyspark also raises these errors."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _environment(java: Java, settings: Mapping[str, str]) -> Iterator[None]:
    """Within this context, set the environment variables that pyspark's launcher needs.

    PYSPARK_PYTHON stays set, because pyspark reads it again later.
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
    """Create a JAVA_HOME in `folder` with which Spark's launchers start `java`. Return its path."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    dropped = [_VECTOR_MODULE] if java.version <= _LAST_WITH_SECURITY_ACTION else [_VECTOR_MODULE, _SECURITY_ACTION]
    program.write_text(
        _JAVA_WITHOUT.format(dropped=" | ".join(dropped), java=str(java.executable).replace("'", "'\\''"))
    )
    program.chmod(0o700)
    return str(folder)


def _stop(session: SparkSession) -> None:
    """Stop the session and then its JVM, which pyspark would otherwise keep until the interpreter ends."""
    if _is_replaced(session):
        _close_accumulators(session.sparkContext)
        return
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
            _silence_accumulators(session.sparkContext)
            session.stop()
    except (Py4JError, OSError):
        # A signal that was sent to the whole process group has ended the JVM, too.
        _forget(session.sparkContext)
    else:
        _end_jvm()


def _silence_accumulators(context: SparkContext) -> None:
    """Prevent pyspark and the JVM from logging errors about accumulator updates that a stop interrupts.

    Each job sends such updates to pyspark, even the first job. A stop interrupts Spark's scheduler. If the scheduler is
    waiting for pyspark to take an update, the interruption closes the socket between them.
    """
    server: Any = context._accumulatorServer  # noqa: SLF001 - a thread and a socket of this process
    if server is None:
        # The session was stopped already, by a connector or its program.
        return
    server.handle_error = lambda *_: None
    jvm: Any = context._jvm  # noqa: SLF001 - pyspark can only set the level of the root logger
    log4j = jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel("org.apache.spark.scheduler.DAGScheduler", log4j.Level.OFF)


def _is_stopped(session: SparkSession) -> bool:
    """Whether the session's SparkContext has ended, although the JVM may still run."""
    context = session.sparkContext._jsc  # noqa: SLF001 - pyspark has no public way to ask
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True


def _discard(session: SparkSession) -> None:
    """Make pyspark and the JVM forget a session that was stopped, or whose JVM died, so that another one can be created.

    A later session of this process, which a program or a connector has started, is left alone, and so is its JVM.
    """
    if not _jvm_runs():
        _forget(session.sparkContext)
    elif SparkContext._active_spark_context is session.sparkContext:  # noqa: SLF001 - as in `_open`
        try:
            session.stop()
        except (Py4JError, OSError):
            _forget(session.sparkContext)
    else:
        _close_accumulators(session.sparkContext)


def _is_replaced(session: SparkSession) -> bool:
    """Whether pyspark has another session by now. Then stopping `session` would end the other session, or its JVM."""
    active = SparkContext._active_spark_context  # noqa: SLF001 - as in `_open`
    return active not in {None, session.sparkContext} and _jvm_runs()


def _jvm_runs() -> bool:
    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark does not tell
    return gateway is not None and (gateway.proc is None or gateway.proc.poll() is None)


def _forget(context: SparkContext) -> None:
    """Make pyspark forget a session whose JVM is gone. `stop` is not used, because it would call the JVM."""
    _close_accumulators(context)
    SparkContext._active_spark_context = None  # noqa: SLF001 - so that another session is made
    SparkSession._instantiatedSession = None  # noqa: SLF001 - likewise
    _end_jvm()


def _close_accumulators(context: SparkContext) -> None:
    accumulators = context._accumulatorServer  # noqa: SLF001 - a thread and a socket of this process
    if accumulators is not None:
        accumulators.shutdown()


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
