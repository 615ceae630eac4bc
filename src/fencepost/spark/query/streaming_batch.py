"""The micro-batch for which the function of `foreachBatch` is called, according to Spark."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import Any, Final, Self

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from fencepost.api.errors import IllegalStateError
from fencepost.api.plugin_calls import kind_of
from fencepost.spark.config.progress import Progress

_QUERY_ID = "sql.streaming.queryId"
_JOB_GROUP = "spark.jobGroup.id"
_GREATEST: Final = 2**63 - 1
_NO_NUMBER: Final = -1
INTERNALS_ERRORS: Final = (Py4JError, AttributeError, TypeError, ValueError)
"""Errors that occur if internals of Spark are not as expected."""


@dataclass(frozen=True, slots=True)
class StreamingBatch:
    """A micro-batch. `query` is the query's id from the checkpoint, and `run` is the id of the query's run.

    `timestamp_ms` is the planning time of the batch from the checkpoint; None if it is unknown.
    """

    query: str
    run: str
    batch: int
    timestamp_ms: int | None

    @classmethod
    def of(cls, frame: DataFrame, batch: object) -> Self:
        """Get the batch from Spark, on the query's thread.

        Raises IllegalStateError on other threads, and if `batch` is not a batch id.
        """
        number = batch_number(batch)
        context = frame.sparkSession.sparkContext
        query = context.getLocalProperty(_QUERY_ID)
        run = None if query is None else _run(frame, query) or context.getLocalProperty(_JOB_GROUP)
        if query is None or run is None:
            raise IllegalStateError(
                "exactly_once(...) is a function for writeStream.foreachBatch, and was called without a streaming query: "
                "write a DataFrame by write_kafka(df, ...), and call the function on the thread that foreachBatch gives"
            )
        return cls(query, run, number, _timestamp_ms(frame, query))

    @property
    def progress(self) -> Progress:
        """The progress of a sink after this batch."""
        return Progress(self.query, self.batch, self.timestamp_ms)


def batch_number(batch: object) -> int:
    """Return the batch id that a function of foreachBatch was called with.

    Raises IllegalStateError if the argument is not a number.
    """
    number = _NO_NUMBER
    if not isinstance(batch, bool):
        with suppress(TypeError):
            number = index(batch)  # type: ignore[arg-type]
    if not 0 <= number <= _GREATEST:
        raise IllegalStateError(
            f"The batch id must be a whole number from 0 to {_GREATEST}, but it is {_shown(batch)}: call exactly_once(...) "
            "with the DataFrame and the batch id that Spark gives to the function of foreachBatch"
        )
    return number


def _shown(batch: object) -> str:
    return str(batch) if isinstance(batch, int) else kind_of(batch)


def is_running(frame: DataFrame, batch: StreamingBatch) -> bool:
    """Return whether the run of a batch is still active in this application. False if this is unknown."""
    return _run(frame, batch.query) == batch.run


def _run(frame: DataFrame, query: str) -> str | None:
    """Return the id of a query's current run; None if unknown.

    The id is also the name of the run's job group, unless the user sets another group.
    """
    try:
        return str(execution_of(frame, query).runId().toString())
    except INTERNALS_ERRORS:
        return None


def _timestamp_ms(frame: DataFrame, query: str) -> int | None:
    """Return the time in the offset log's entry; None if it is unknown."""
    try:
        return int(execution_of(frame, query).lastExecution().offsetSeqMetadata().batchTimestampMs())
    except INTERNALS_ERRORS:
        return None


def execution_of(frame: DataFrame, query: str) -> Any:
    """Return the execution of a running query from Spark's internals.

    Raises one of INTERNALS_ERRORS if the internals are not as expected.
    """
    session: Any = frame.sparkSession
    identity = _uuid_of(session._jvm)(query)  # noqa: SLF001 - no public interface has it
    return session._jsparkSession.sharedState().activeStreamingQueries().get(identity)  # noqa: SLF001


@lru_cache(maxsize=1)
def _uuid_of(jvm: Any) -> Any:
    """Return Java's function that parses a UUID.

    The function is cached, because py4j asks the JVM for each part of its name.
    """
    return jvm.java.util.UUID.fromString
