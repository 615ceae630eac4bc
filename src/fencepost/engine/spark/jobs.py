"""One task's Spark jobs: their scheduler pool, their job group, their cancellation, and the conversion of failures."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost.api.errors import FencepostError
from fencepost.engine.errors import BatchCancelledError, SparkDataError, SparkJobError, UnexplainedJobError
from fencepost.engine.job_failure import WITHOUT_JVM, JobFailure
from fencepost.engine.reports import carried_failure


class Cancelled(Protocol):
    """Whether a task was cancelled. For example, a threading.Event implements it."""

    def is_set(self) -> bool:
        """Whether the task was cancelled: then the task must end even if it is working."""

    def wait(self, timeout: float, /) -> bool:
        """Wait for `timeout` seconds. Return True at once when a waiting task should end."""


def check_cancelled(task: str, cancelled: Cancelled) -> None:
    """Raise BatchCancelledError if the task was cancelled."""
    if cancelled.is_set():
        raise _cancelled(task)


def wait_unless_cancelled(task: str, cancelled: Cancelled, seconds: float) -> None:
    """Wait. Raises BatchCancelledError as soon as a waiting task should end."""
    if cancelled.wait(seconds):
        raise _cancelled(task)


def _cancelled(task: str) -> BatchCancelledError:
    return BatchCancelledError(f"Task {task} was cancelled while it wrote a batch, which is not committed")


class Jobs:
    """The Spark jobs of all tasks. The jobs of a task run on the thread that calls `running`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, tuple[SparkSession, str]] = {}
        self._numbers = itertools.count()

    @contextmanager
    def running(
        self, session: SparkSession, task: str, cancelled: Cancelled, mark: str | None = None
    ) -> Iterator[None]:
        """Within this context, this thread's Spark jobs belong to a task, and `cancel` cancels them.

        Failures of Spark are converted to the first of these errors that applies.

        If an executor sent an error after `mark`, this error is raised. If Python code raised a RetriableError, a
        RetriableJobError is raised. If the same rows would cause the error again, a SparkDataError is raised. If a row
        may have caused the error, an UnexplainedJobError is raised (see `of_rows`). Otherwise, a SparkJobError is
        raised. Each call has its own job group, so that cancelling it also stops later jobs of the call.
        """
        context = session.sparkContext
        group = f"{task}#{next(self._numbers)}"
        with self._lock:
            check_cancelled(task, cancelled)
            self._running[task] = session, group
        try:
            context.setLocalProperty("spark.scheduler.pool", task)
            context.setJobGroup(group, f"fencepost {task}")
            yield
        except (Py4JError, PySparkException, OSError) as error:
            check_cancelled(task, cancelled)
            found = _translated(error, task, mark)
            # While Spark stops, running jobs fail with various errors.
            raise (
                _stopped(task) if isinstance(found, UnexplainedJobError) and not _is_running(context) else found
            ) from error
        except WITHOUT_JVM as error:
            check_cancelled(task, cancelled)
            if _is_running(context):
                raise
            raise _stopped(task) from error
        finally:
            with self._lock:
                # The next run of the same task may begin before a cancelled run ends.
                if self._running.get(task) == (session, group):
                    del self._running[task]

    def cancel(self, task: str) -> None:
        """Cancel a task's jobs. Executors may keep writing until the transaction is aborted."""
        with self._lock:
            running = self._running.get(task)
        if running is not None:
            session, group = running
            session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001 - not in pyspark's API


@contextmanager
def of_rows() -> Iterator[None]:
    """Within this context, an UnexplainedJobError becomes a SparkDataError.

    Use it only for jobs whose rows are known to be readable, so that only transforms can fail.
    """
    try:
        yield
    except UnexplainedJobError as error:
        raise SparkDataError(str(error), reason=error.reason) from error


def _is_running(context: SparkContext) -> bool:
    """Whether a context is still running: neither this process nor Spark itself has stopped it."""
    try:
        return not context._jsc.sc().isStopped()  # noqa: SLF001 - pyspark has no public way to ask
    except (Py4JError, OSError, *WITHOUT_JVM):
        return False


def _stopped(task: str) -> SparkJobError:
    return SparkJobError(
        f"Spark was stopped while it ran a job of {task}. The transaction is aborted; the batch is read again when the task is "
        "restarted"
    )


def _translated(error: Exception, task: str, mark: str | None) -> FencepostError:
    carried = None if mark is None else carried_failure(error, mark)
    if carried is not None:
        return carried
    return JobFailure.of(error).as_error(
        task,
        code="the code of the transform or connector",
        afterwards="The transaction is aborted; the batch is read again when the task is restarted",
    )
