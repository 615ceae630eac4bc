"""The Spark jobs of a batch, in the query's own job group, and the conversion of their failures.

`query.stop()` cancels the job group of the query, whose name is its run id, and interrupts the thread that waits for
the function of `foreachBatch`. So the jobs keep this group, unlike in a worker's task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from fencepost.api.errors import FencepostError
from fencepost.engine.errors import BatchCancelledError
from fencepost.engine.job_failure import JobFailure
from fencepost.engine.reports import carried_failure

_INTERRUPTED: Final = ("java.lang.InterruptedException", "java.nio.channels.ClosedByInterruptException")
_CANCELLED: Final = "SPARK_JOB_CANCELLED"

# If an error has the text of an interrupted JVM call, Spark considers it the effect of query.stop().
_AS_INTERRUPTED: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the batch's jobs: java.lang.InterruptedException"
)


@contextmanager
def jobs_of(batch: str, mark: str) -> Iterator[None]:
    """Convert failures of the block's Spark jobs to a FencepostError. Errors from executors carry the `mark`."""
    try:
        yield
    except (Py4JError, PySparkException, OSError) as error:
        failure = _failure(error, batch, mark)
        if isinstance(failure, BatchCancelledError):
            # Spark searches the text of the error, including all its causes, and a long text overflows Spark's stack.
            raise failure from None
        raise failure from error


def _failure(error: Exception, batch: str, mark: str) -> FencepostError:
    carried = carried_failure(error, mark)
    if carried is not None:
        return carried
    failure = JobFailure.of(error)
    if any(cause.kind in _INTERRUPTED for cause in failure.causes) or _CANCELLED in failure.text:
        return BatchCancelledError(
            f"The query was stopped while it wrote {batch}, which is aborted ({_AS_INTERRUPTED})"
        )
    return failure.as_error(batch, code="the query", afterwards="Nothing of this batch was written")
