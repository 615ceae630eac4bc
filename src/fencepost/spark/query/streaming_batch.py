"""The micro-batch for which the function of `foreachBatch` is called, as Spark knows it."""

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
UNTOLD: Final = (Py4JError, AttributeError, TypeError, ValueError)
"""Errors of calls to internals of Spark that are not as expected."""


@dataclass(frozen=True, slots=True)
class StreamingBatch:
    """A micro-batch. `query` is the checkpoint's id, `run` the id of the query's run.

    `timestamp_ms` is when the batch was planned, which is in the checkpoint; None if Spark does not tell.
    """

    query: str
    run: str
    batch: int
    timestamp_ms: int | None

    @classmethod
    def of(cls, frame: DataFrame, batch: object) -> Self:
        """Read it from Spark on the thread of the query. Raises IllegalStateError on any other thread, or for no batch id."""
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
        """The progress of a sink with this batch."""
        return Progress(self.query, self.batch, self.timestamp_ms)


def batch_number(batch: object) -> int:
    """Return the number that a function of foreachBatch was given as the batch id. Raises IllegalStateError for none."""
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
    """Whether the run of a batch is still active in this application; False if that is unknown."""
    return _run(frame, batch.query) == batch.run


def _run(frame: DataFrame, query: str) -> str | None:
    """The id of a query's present run, None if unknown. It is also its job group, unless the user sets one."""
    try:
        return str(execution_of(frame, query).runId().toString())
    except UNTOLD:
        return None


def _timestamp_ms(frame: DataFrame, query: str) -> int | None:
    """The time in the offset log's entry; None if unknown."""
    try:
        return int(execution_of(frame, query).lastExecution().offsetSeqMetadata().batchTimestampMs())
    except UNTOLD:
        return None


def execution_of(frame: DataFrame, query: str) -> Any:
    """The execution of a running query, from Spark's internals, which may not be as expected (UNTOLD)."""
    session: Any = frame.sparkSession
    identity = _uuid_of(session._jvm)(query)  # noqa: SLF001 - no public interface has it
    return session._jsparkSession.sharedState().activeStreamingQueries().get(identity)  # noqa: SLF001


@lru_cache(maxsize=1)
def _uuid_of(jvm: Any) -> Any:
    """Java's function that parses a UUID: the JVM looks up each part of its name."""
    return jvm.java.util.UUID.fromString
