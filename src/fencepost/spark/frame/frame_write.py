"""Writes a DataFrame into the open transaction of a sink, with the engine of fencepost's worker.

    many rows   executors: converters -> Kafka, as a worker's DataFrame
    few rows    executors -> driver: converters -> Kafka, without a Python worker

Whether there are few rows is known only after the batch was executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from fencepost.api.record import SourceBatch
from fencepost.engine.column_types import column_types
from fencepost.engine.engine import WriteResult
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.errors import RecordRefusedError
from fencepost.engine.letter_write import write_letters
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.refused_records import log_refused
from fencepost.engine.reports import new_mark
from fencepost.engine.routing import Ownership
from fencepost.engine.spark.frame_preparation import prepare_frame
from fencepost.engine.spark.job_write import SparkWrite, write_batch
from fencepost.engine.topic_gate import TopicGate
from fencepost.engine.write_spec import WriteSpec
from fencepost.engine.write_stage import GivenRows, WriteStage
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.kafka.producer.record_producer import RecordProducer
from fencepost.kafka.producer.transaction import Transaction
from fencepost.spark.frame.batch_sizes import SMALL_BYTES, SMALL_ROWS, BatchSizes
from fencepost.spark.frame.few_rows import few_rows
from fencepost.spark.frame.jobs import jobs_of
from fencepost.spark.frame.wording import capitalized


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWrite:
    """The write of one batch of a `sink`. `batch` names it in messages.

    `start` shifts the partition of its first rows without a key.

    If the `sizes` of earlier batches suggest that the batch is small, its rows are first fetched. If the batch turns
    out not to be small, that job was useless.
    """

    pipeline: Pipeline
    producer: RecordProducer
    sink: str
    batch: str
    gate: TopicGate
    start: int
    sizes: BatchSizes

    def prepare(self, frame: DataFrame) -> None:
        """Prepare the converters, before the transaction begins. Raises the errors of `prepare_frame`."""
        prepare_frame(frame, self.pipeline, partial(jobs_of, self.batch, new_mark()))

    def write(self, frame: DataFrame) -> WriteResult:
        """Write all rows, and return when the brokers have them. The transaction stays open.

        Raises the errors of `SparkEngine.write`. After an error, the transaction must be aborted.
        """
        errors = ErrorHandler(self.pipeline.errors)
        whose = capitalized(self.batch)
        try:
            tried_driver = self.sizes.may_be_small and not self.pipeline.transforms
            rows = self._few_rows(frame) if tried_driver else None
            acks = self._by_executors(frame, errors) if rows is None else self._by_driver(frame, rows, errors)
        except RecordRefusedError as error:
            log_refused(error.tally, whose)
            raise
        log_refused(errors.tally, whose)
        self.producer.acknowledge(acks)
        dead = write_letters(errors.letters, self._spec(self.producer.transaction), self.producer, f"{self.sink}-0")
        result = WriteResult.of(acks, None, errors.tally, dead=dead)
        self.sizes.wrote(result.written, result.bytes, refused=tried_driver and rows is None)
        return result

    def _by_executors(self, frame: DataFrame, errors: ErrorHandler) -> Sequence[Ack]:
        mark = new_mark()
        with closing(self.producer.writer()) as metadata, self.producer.lent() as transaction:
            write = SparkWrite(
                session=frame.sparkSession,
                spec=self._spec(transaction),
                metadata=metadata,
                errors=errors,
                running=partial(jobs_of, self.batch, mark),
                mark=mark,
            )
            return write_batch(write, SourceBatch(dataframe=frame))

    def _few_rows(self, frame: DataFrame) -> pa.Table | None:
        with jobs_of(self.batch, new_mark()):
            return few_rows(frame, SMALL_ROWS, SMALL_BYTES)

    def _by_driver(self, frame: DataFrame, rows: pa.Table, errors: ErrorHandler) -> Sequence[Ack]:
        types = column_types(frame.schema, where="the DataFrame")
        stage = WriteStage(self._spec(self.producer.transaction), GivenRows(), types)
        with closing(self.producer.writer()) as writer:
            return stage.write(rows.combine_chunks().to_batches(), writer, Ownership(), errors).acks

    def _spec(self, transaction: Transaction) -> WriteSpec:
        return WriteSpec(
            pipeline=self.pipeline,
            config=self.producer.config,
            transaction=transaction,
            topic_gate=self.gate,
            start=self.start,
        )
