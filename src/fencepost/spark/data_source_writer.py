"""One write by `format("fencepost")`: begun in one process of the driver, written by tasks, ended in another process.

    driver     begin_write    InitProducerId, is the run in Kafka?, begin, open the ledger
    executors  write          claim partitions in the ledger, convert, write
    driver     commit         close the ledger, compare its attempts with the results, record the run, EndTxn
               abort          after any failure, also after that of `commit`

Spark makes each of these calls in a new or another Python process, with this object in a pickle.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.config.error_handling import DEAD_LETTER_TOPIC, Tolerance
from fencepost.engine.reports import new_mark
from fencepost.engine.routing import agreed
from fencepost.failpoint import FailPoint, reach
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.spark.handed_over import BeginningSink, EndingSink, HandedOver
from fencepost.spark.ledger import Closed
from fencepost.spark.ledger_log import LedgerLog, LedgerPlace, open_ledger
from fencepost.spark.progress import SinkKey
from fencepost.spark.record_columns import RecordColumns
from fencepost.spark.rows import pipeline_for
from fencepost.spark.sink_config import SinkConfig
from fencepost.spark.task_write import TaskSpec, TaskWrite

_log: Final = logging.getLogger(__name__)

_RUN: Final = "run"


@dataclass
class TaskDone(WriterCommitMessage):
    """What a task has written. `attempt` is None if it wrote nothing."""

    task: int
    attempt: int | None = None
    acks: Sequence[Ack] = ()
    partitions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenWrite:
    """A transaction and its ledger."""

    handed_over: HandedOver
    place: LedgerPlace


class FencepostWriter(DataSourceArrowWriter):
    """Writes one DataFrame. Without an `open_write` its run is in Kafka."""

    def __init__(self, key: SinkKey, config: SinkConfig, spec: TaskSpec, open_write: OpenWrite | None) -> None:
        self._key = key
        self._config = config
        self._spec = spec
        self._open = open_write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        """Write the rows of a Spark partition. Raises a FencepostError, after which the write can only be aborted."""
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a data source writes as a Spark task only")
        task, attempt = context.partitionId(), context.taskAttemptId()
        if self._open is None:
            return TaskDone(task)
        with closing(
            TaskWrite(self._spec, self._open.handed_over.transaction, self._open.place, task, attempt)
        ) as write:
            acks = write.write(iterator)
        return TaskDone(task, attempt if write.has_claimed else None, acks, write.asked)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the transaction if all that was written is what `messages` tell. Raises a FencepostError if not."""
        if self._open is None:
            _log.warning("The %s is in Kafka: it is not written again", self._key)
            return
        done = [message for message in messages if isinstance(message, TaskDone)]
        self._check_attempts({message.task: message.attempt for message in done if message.attempt is not None})
        agreed(message.partitions for message in done)
        with closing(self._ending()) as sink:
            sink.commit([ack for message in done for ack in message.acks])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the transaction, of which any task may still be alive. Never raises: Spark reports the first error."""
        del messages
        if self._open is not None:
            with closing(self._ending()) as sink:
                sink.abort()

    def _check_attempts(self, attempts: Mapping[int, int]) -> None:
        """Raise unless these attempts, by task, are all that may have written; no other may from here on."""
        if self._open is None:
            return
        with LedgerLog(self._config, self._open.place) as log:
            log.add(Closed())
            log.ledger.check(attempts)

    def _ending(self) -> EndingSink:
        handed_over = self._open.handed_over  # type: ignore[union-attr]  # callers have looked
        return EndingSink(self._config, self._key, handed_over, keeps_progress=self._key.run is not None)


def begin_write(options: Mapping[str, Any], schema: StructType, *, overwrite: bool) -> FencepostWriter:
    """Begin the write of a DataFrame with these columns.

    Raises ConfigError or DataError for what cannot be written, and what Kafka's clients raise.
    """
    if overwrite:
        raise ConfigError('Kafka cannot overwrite: use mode("append")')
    run = options.get(_RUN)
    _check_supported(options)
    config = SinkConfig.from_options({name: value for name, value in options.items() if name != _RUN})
    key = config.key_of(run)
    columns = RecordColumns.of(schema.fieldNames(), config)
    records = columns.schema(schema)
    spec = TaskSpec(
        config=config, sink=key.sink, columns=columns, schema=records, pipeline=pipeline_for(records, config)
    )
    sink = BeginningSink(config, key, keeps_progress=run is not None)
    try:
        reach(FailPoint.BEFORE_BEGIN)
        sink.own()
        if sink.last is not None:
            sink.close()
            return FencepostWriter(key, config, spec, None)
        place = open_ledger(config, new_mark(), KafkaClients())
        handed_over = sink.hand_over()
    except FencepostError:
        sink.close()
        raise
    reach(FailPoint.AFTER_BEGIN)
    return FencepostWriter(key, config, spec, OpenWrite(handed_over, place))


def _check_supported(options: Mapping[str, Any]) -> None:
    """Raise ConfigError for what `write_kafka` has and a data source has not."""
    for name in ("transforms", "errors.tolerance", DEAD_LETTER_TOPIC):
        if str(options.get(name, "")).strip().lower() not in ("", Tolerance.NONE):
            raise ConfigError(
                f'format("fencepost") has no {name}: use fencepost.spark.write_kafka, or do it in the query', name=name
            )
