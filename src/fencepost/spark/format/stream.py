"""A streaming query that writes by `format("fencepost")`: each micro-batch is one transaction.

Spark makes a new writer for each micro-batch, in a process of the driver. Another process commits or aborts the batch.
That process gets the options and the messages of tasks, but no data of the writer. So the messages contain the data for
a commit, and an abort without any message finds the transaction by the ledger.

When the writer is made, the checkpoint already has the batch and its planning time. So the process of the writer
decides whether the batch is written, is already in Kafka, or is refused, as the function for `foreachBatch` does. At
the commit, Spark names the batch: if it is not the batch that was begun, it is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from fencepost.api.errors import ConfigError, FencepostError, IllegalStateError
from fencepost.spark.config.progress import NextStep, Progress, SinkKey, next_step
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.errors import CheckpointMismatchError
from fencepost.spark.format.checkpoint import planned_batch, query_id
from fencepost.spark.format.handed_over import abort_opened
from fencepost.spark.format.open_write import OpenWrite, TaskDone, task_spec, this_task
from fencepost.spark.format.options import CHECKPOINT, RUN, config_of, option
from fencepost.spark.format.short_errors import with_short_errors
from fencepost.spark.format.task_write import TaskSpec

_log: Final = logging.getLogger(__name__)

_INSTEAD: Final = "df.writeStream.foreachBatch(exactly_once(...)) of fencepost.spark"


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """A micro-batch that was begun. `open_write` is None if the batch is already committed."""

    progress: Progress
    open_write: OpenWrite | None


@dataclass
class BatchTaskDone(WriterCommitMessage):
    """The result of a task for a micro-batch."""

    task: TaskDone
    begun: BegunBatch


class FencepostStreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch. In the process that commits or aborts it, `spec` and `begun` are None."""

    def __init__(
        self, config: SinkConfig, location: str, spec: TaskSpec | None = None, begun: BegunBatch | None = None
    ) -> None:
        self._config = config
        self._location = location
        self._spec = spec
        self._begun = begun

    @with_short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchTaskDone:
        """Write the rows of a Spark partition. Raises a FencepostError, after which the batch can only be aborted."""
        begun, spec = self._begun, self._spec
        if begun is None or spec is None:
            raise IllegalStateError("this writer only ends a micro-batch")
        if begun.open_write is not None:
            return BatchTaskDone(begun.open_write.write(spec, iterator), begun)
        # The batch must be executed, though not written: a stateful query needs its state, and watermarks result from
        # the execution.
        for _ in iterator:
            pass
        return BatchTaskDone(TaskDone(this_task()[0]), begun)

    @with_short_errors
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - pyspark's name
        """Commit the transaction of a batch if exactly the records in `messages` were written.

        Raises CheckpointMismatchError if another batch was begun, and the errors of `OpenWrite.commit`.
        """
        done = [message for message in messages if isinstance(message, BatchTaskDone)]
        begun = next(message.begun for message in done)
        if batchId != begun.progress.batch:
            raise CheckpointMismatchError(
                f"Spark commits batch {batchId}, but the newest in checkpoint {self._location} was batch "
                f"{begun.progress.batch} when it began, so nothing is committed: another instance of the query writes to "
                "the checkpoint, or Spark keeps it elsewhere (spark.hadoop.fs.defaultFS). Stop the other one, or use "
                f"{_INSTEAD}"
            )
        if begun.open_write is None:
            _log.warning("Batch %d is already in Kafka: it is executed, but not written again", batchId)
            return
        begun.open_write.commit(self._config, [message.task for message in done], begun.progress)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - pyspark's name
        """Abort the transaction. Its tasks may still be alive.

        Never raises, because Spark should report the first error.
        """
        del batchId
        begun = next((message.begun for message in messages if isinstance(message, BatchTaskDone)), None)
        if begun is None:
            with suppress(FencepostError):
                abort_opened(self._config, _key_of(self._config, query_id(self._location)))
        elif begun.open_write is not None:
            begun.open_write.abort(self._config)


def begin_batch(options: Mapping[str, Any], schema: StructType) -> FencepostStreamWriter:
    """Begin the micro-batch that the checkpoint has planned.

    Raises ConfigError or DataError for data that cannot be written, CheckpointMismatchError if the batch does not
    follow the sink's last commit, TopicRecreatedError, and the errors of Kafka's clients.
    """
    config, location = _checked(options)
    planned = planned_batch(location)
    key = _key_of(config, planned.query or "")
    spec = task_spec(config, key, schema)

    def decide(last: Progress | None) -> NextStep:
        return next_step(key.sink, last, planned, first_batch=config.first_batch)

    begun = BegunBatch(planned, OpenWrite.begin(config, key, decide, keeps_progress=True))
    return FencepostStreamWriter(config, location, spec, begun)


def ending_writer(options: Mapping[str, Any]) -> FencepostStreamWriter:
    """Return the writer that commits or aborts a micro-batch of another process. Raises ConfigError."""
    return FencepostStreamWriter(*_checked(options))


def _key_of(config: SinkConfig, query: str) -> SinkKey:
    return SinkKey(config.sink_of_query(query))


def _checked(options: Mapping[str, Any]) -> tuple[SinkConfig, str]:
    """Return the configuration, and the location of the checkpoint."""
    if options.get(RUN) is not None:
        raise ConfigError("run is for a DataFrame, and this is a stream: name the sink by the option name", name=RUN)
    location = option(options, CHECKPOINT)
    if location is None:
        raise ConfigError(
            'A stream by format("fencepost") needs .option("checkpointLocation", ...) of its own, from which the sink reads '
            "when a batch was planned: spark.sql.streaming.checkpointLocation and temporary checkpoints are not told to a "
            f"data source. Set it, or use {_INSTEAD}",
            name="checkpointLocation",
        )
    return config_of(options, instead=_INSTEAD), location
