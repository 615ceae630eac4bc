"""Allows writes only in the first attempt of a Spark task and of its stage.

Spark runs a task again after a failure, and runs a whole stage again after the loss of its shuffle input. By then the
records of the first attempt may already be in Kafka. Python knows a task's attempt number, but not the attempt number
of the stage. The JVM's name of a task's thread contains both, `Executor task launch worker for task 1.0 in stage 4.0
(TID 9)`. So this name is put into the first row that a writer gets. A stage without a shuffle before it cannot lose
shuffle input, so it is never run again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.engine.errors import SparkJobError, WriteRetriedError

_ATTEMPT: Final = "__fencepost_attempt"
_THREAD: Final = re.compile(r"in stage (\d+)\.(\d+) \(TID (\d+)\)")

_ROW_BITS: Final = 33
"""The number of low bits in `monotonically_increasing_id` that count the rows of a partition."""


def with_attempt(frame: DataFrame) -> DataFrame:
    """Add a column from which the writer learns the stage's attempt. The writer must run in the same stage."""
    is_first = F.monotonically_increasing_id().bitwiseAND((1 << _ROW_BITS) - 1) == 0
    thread = F.expr("java_method('java.lang.Thread', 'currentThread')")
    return frame.withColumn(_ATTEMPT, F.when(is_first, thread))


def task_context() -> TaskContext:
    """The Spark task that runs this code. Raises WriteRetriedError if this is not the task's first attempt."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a write stage runs as a Spark task only")
    if context.attemptNumber() > 0:
        raise WriteRetriedError(
            f"Spark ran partition {context.partitionId()} of a write again (attempt {context.attemptNumber()}), which "
            "could write its records twice: the transaction is aborted. What its first attempt failed with, such as a lost "
            "executor, is in Spark's log; with spark.task.maxFailures=1 it is shown here"
        )
    return context


def of_first_attempt(given: Iterator[pa.RecordBatch], context: TaskContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a DataFrame from `with_attempt`, without the added column.

    Raises WriteRetriedError if this is not the stage's first attempt, and SparkJobError if the attempt is unknown.
    """
    known = False
    for batch in given:
        if not known and batch.num_rows:
            check_stage_attempt(batch[_ATTEMPT][0].as_py(), context.stageId(), context.taskAttemptId())
            known = True
        yield batch.drop_columns([_ATTEMPT])


def check_stage_attempt(thread: str | None, stage: int, task: int) -> None:
    """Raise WriteRetriedError if the thread name of a task contains an attempt of `stage` that is not the first one.

    `task` is the unique id of the task's attempt. Raises SparkJobError if the name has any other form.
    """
    found = _THREAD.search(thread or "")
    if found is None or (int(found[1]), int(found[3])) != (stage, task):
        raise SparkJobError(
            f"Spark does not tell which attempt of stage {stage} writes, so its records could be written twice: its "
            f"thread is {thread!r}. Use a version of Spark that fencepost supports"
        )
    if int(found[2]) > 0:
        raise WriteRetriedError(
            f"Spark ran stage {stage} of a write again (attempt {found[2]}), which could write its records twice: the "
            "transaction is aborted. Look for lost executors and lost shuffle files, and set "
            "spark.stage.maxConsecutiveAttempts=1"
        )
