"""A write of `format("fencepost")` from its beginning to its end, with each step in a separate process.

driver     begin     InitProducerId, check whether the rows are in Kafka already, begin, open the ledger
executors  write     claim partitions in the ledger, convert, write
driver     commit    close the ledger, compare its attempts with the results, record the progress, EndTxn
           abort     after any failure, also after a failure of `commit`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.engine.column_types import column_types
from fencepost.engine.conversion import require_topic
from fencepost.engine.preparation import has_decisions, prepare_topics
from fencepost.engine.reports import new_mark
from fencepost.engine.routing import agreed
from fencepost.failpoint import FailPoint, reach
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.spark.config.progress import NextStep, Progress, SinkKey
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.format.handed_over import BeginningSink, EndingSink, HandedOver
from fencepost.spark.format.ledger import Closed
from fencepost.spark.format.ledger_log import LedgerLog, LedgerPlace, open_ledger
from fencepost.spark.format.task_settings import check_task_settings
from fencepost.spark.format.task_write import TaskSpec, TaskWrite
from fencepost.spark.frame.record_columns import SinkColumns
from fencepost.spark.frame.rows import pipeline_for


@dataclass
class TaskDone(WriterCommitMessage):
    """The records that a task has written. `attempt` is None if it claimed no partitions, and so wrote nothing."""

    task: int
    attempt: int | None = None
    acks: Sequence[Ack] = ()
    partitions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenWrite:
    """The open transaction of a sink, or of one run of a sink, with its ledger.

    `keeps_progress` says whether the commit is recorded.
    """

    key: SinkKey
    keeps_progress: bool
    handed_over: HandedOver
    place: LedgerPlace

    @classmethod
    def begin(
        cls, config: SinkConfig, key: SinkKey, decide: Callable[[Progress | None], NextStep], *, keeps_progress: bool
    ) -> OpenWrite | None:
        """Fence former owners, and begin a transaction.

        Return None if `decide` finds that the data is already committed.

        Raises the errors of `decide` and `Sink.own`.
        """
        sink = BeginningSink(config, key, keeps_progress=keeps_progress)
        try:
            reach(FailPoint.BEFORE_BEGIN, key.sink)
            sink.own()
            if decide(sink.last) is NextStep.SKIP:
                sink.close()
                return None
            handed_over = sink.hand_over()
            place = open_ledger(config, new_mark(), handed_over.transaction, KafkaClients())
        except FencepostError:
            sink.close()
            raise
        reach(FailPoint.AFTER_BEGIN)
        return cls(key, keeps_progress, handed_over, place)

    def write(self, spec: TaskSpec, batches: Iterator[pa.RecordBatch]) -> TaskDone:
        """Write the rows of a Spark partition, in its task.

        Raises the errors of `check_task_settings` and `TaskWrite.write`.
        """
        check_task_settings(_task_context())
        task, attempt = this_task()
        with closing(TaskWrite(spec, self.handed_over, self.place, task, attempt)) as write:
            acks = write.write(batches)
        return TaskDone(task, attempt if write.has_claimed else None, acks, write.requested_counts)

    def commit(self, config: SinkConfig, done: Iterable[TaskDone], progress: Progress) -> None:
        """Commit the transaction if exactly the tasks' records were written. Otherwise raises a FencepostError."""
        done = list(done)
        self._check_attempts(config, {task.task: task.attempt for task in done if task.attempt is not None})
        agreed(task.partitions for task in done)
        with closing(self._ending(config)) as sink:
            sink.commit([ack for task in done for ack in task.acks], progress)

    def abort(self, config: SinkConfig) -> None:
        """Abort the transaction. Its tasks may still be alive. Never raises."""
        with closing(self._ending(config)) as sink:
            sink.abort()

    def _check_attempts(self, config: SinkConfig, attempts: Mapping[int, int]) -> None:
        """Close the ledger, and check that no attempt except `attempts`, by task, may have written.

        Raises the errors of `LedgerLog.add` and `Ledger.check`.
        """
        with LedgerLog(config, self.place) as log:
            log.add(Closed())
            log.ledger.check(attempts)

    def _ending(self, config: SinkConfig) -> EndingSink:
        return EndingSink(config, self.key, self.handed_over, keeps_progress=self.keeps_progress)


def this_task() -> tuple[int, int]:
    """Return the number of this Spark task, and of its attempt, which is unique in the application."""
    context = _task_context()
    return context.partitionId(), context.taskAttemptId()


def _task_context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a data source writes as a Spark task only")
    return context


def task_spec(config: SinkConfig, key: SinkKey, schema: StructType) -> TaskSpec:
    """Return the specification for the tasks of a write of these columns. Its converters are prepared.

    Raises ConfigError and DataError as `pipeline_for` does, ConfigError if there are no columns, and the errors of a
    converter's `prepare`.
    """
    if not schema.fields:
        # A batch without columns has no rows in Arrow, so tasks would get no rows.
        raise ConfigError(
            "The DataFrame has no columns, and Spark hands no rows over to a data source then: give it a column, or use "
            "write_kafka or exactly_once of fencepost.spark"
        )
    columns = SinkColumns.of(schema.fieldNames(), config)
    records = columns.schema(schema)
    pipeline = pipeline_for(records, config)
    if has_decisions(pipeline):
        types = column_types(records, where=pipeline.given)
        if types.has_topic:
            raise ConfigError(
                "A converter with a schema registry has to know the topics before the write, and Spark does not show the rows "
                "of a data source: set the option topic and drop the column 'topic', or write with "
                "fencepost.spark.write_kafka or exactly_once",
                name="topic",
            )
        prepare_topics(pipeline, [require_topic(pipeline.default_topic)], types)
    return TaskSpec(config=config, sink=key.sink, columns=columns, schema=records, pipeline=pipeline)
