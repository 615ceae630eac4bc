"""A sink: the owner of a transactional id, and the progress that it commits with each batch.

First InitProducerId is sent, and then the progress is read. InitProducerId fences earlier owners, so the progress that
is read stays valid until a newer owner fences this one.

A failed batch is written again in a new transaction. If the producer had to be initialized again for that, the progress
is read again as well, because another owner may have committed in between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame

from fencepost.api.errors import FencepostError, RetriableError
from fencepost.engine.engine import WriteResult
from fencepost.engine.errors import BatchCancelledError, RecordRefusedError, SparkJobError
from fencepost.engine.pipeline import Pipeline
from fencepost.failpoint import FailPoint, reach
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.errors import (
    BrokerRefusedError,
    PartitionGoneError,
    TransactionAbortableError,
    UnknownOutcomeError,
)
from fencepost.kafka.producer.record_producer import refresh_topics
from fencepost.kafka.producer.transaction import TransactionState
from fencepost.spark.config.progress import NextStep, Progress, SinkKey, check_topic
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.errors import CommitLostError, TopicRecreatedError
from fencepost.spark.frame.batch_sizes import BatchSizes
from fencepost.spark.frame.frame_write import FrameWrite
from fencepost.spark.frame.wording import capitalized, in_spark_terms, recreated
from fencepost.spark.sink.progress_log import ProgressLog
from fencepost.spark.written import SinkStatistics, Written

_log: Final = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""The number of attempts for a batch before its query fails. Each attempt is a new transaction."""

_PASSING: Final = (SparkJobError, TransactionAbortableError, RetriableError)
_LASTING: Final = (BatchCancelledError, RecordRefusedError)


class Sink:
    """Owns the transactional id of a sink, or of one run of it. Only one thread may use it."""

    def __init__(
        self, config: SinkConfig, key: SinkKey, *, keeps_progress: bool = True, clients: KafkaClients | None = None
    ) -> None:
        """Without `keeps_progress` the commits are not recorded. This is for a single write."""
        clients = clients or KafkaClients()
        self.key = key
        self.last: Progress | None = None
        """The last committed progress. It is known after `own`."""
        self._config = config
        self._keeps_progress = keeps_progress
        self._log = ProgressLog(config, key, clients=clients)
        self._producer = clients.transactional_producer(config.producer, key.transactional_id)
        self._topic_id: str | None = None
        self._gate = config.topic_gate(key.sink)
        self._sizes = BatchSizes()
        self.statistics = SinkStatistics(key.sink, key.transactional_id)
        """The counts so far. The object is replaced at each change, so other threads may read it."""

    @cached_property
    def cluster_id(self) -> str:
        """The id of the sink's cluster. Raises the errors of `ProgressLog.cluster_id`."""
        return self._log.cluster_id()

    def own(self) -> None:
        """Fence former owners, and then read the last commit.

        Raises TopicRecreatedError, and the errors of Kafka's clients.
        """
        if self._producer.state is TransactionState.UNINITIALIZED:
            # Getting the cluster's id raises an error if no broker answers. Without this line, the search for the
            # coordinator would raise an error later, with a worse message.
            _ = self.cluster_id
            if self._keeps_progress:
                self._log.ensure_topic()
        self._producer.init_transactions()
        if self._keeps_progress:
            self.last = self._log.read()
        if self._config.topic is not None:
            # This process may have cached the partitions of a deleted topic with the same name. So it first requests
            # the partitions again, and then the topic's id.
            refresh_topics(self._producer, [self._config.topic])
            self._topic_id = self._log.topic_id(self._config.topic)
            check_topic(self.key, self._config.topic, self.last, self._topic_id)

    def write(
        self, frame: DataFrame, pipeline: Pipeline, progress: Progress, decide: Callable[[Progress | None], NextStep]
    ) -> Written:
        """Write a frame, and commit it with its progress, unless `decide` finds that it is already in Kafka.

        Raises a FencepostError after the last attempt, or at once if a new attempt would fail again. If the first
        attempt failed with another error, a note contains that error.
        """
        left = ATTEMPTS
        first: FencepostError | None = None
        while True:
            left -= 1
            try:
                if self._producer.state is TransactionState.FAILED:
                    self.own()
                if decide(self.last) is NextStep.SKIP:
                    self.statistics = replace(
                        self.statistics, skipped=self.statistics.skipped + 1, last_batch=progress.batch
                    )
                    return Written(skipped=True)
                result = self._write(frame, pipeline, progress)
            except FencepostError as error:
                if not left or isinstance(error, _LASTING) or not isinstance(error, _PASSING):
                    _note_first(error, first, ATTEMPTS - left)
                    raise
                first = first or error
                self.statistics = replace(self.statistics, retries=self.statistics.retries + 1)
                _log.warning("%s is written again, in a new transaction: %s", capitalized(self._named(progress)), error)
            else:
                self._count(result, progress)
                return Written(result.written, result.bytes)

    def close(self) -> None:
        """Abort the open transaction, quickly, and close the connections. Never raises."""
        self._producer.close()
        self._log.close()

    def _write(self, frame: DataFrame, pipeline: Pipeline, progress: Progress) -> WriteResult:
        producer = self._producer
        writing = FrameWrite(
            pipeline=pipeline,
            producer=producer,
            sink=self.key.sink,
            batch=self._named(progress),
            gate=self._gate,
            start=progress.batch or 0,
            sizes=self._sizes,
        )
        try:
            writing.prepare(frame)
            reach(FailPoint.BEFORE_BEGIN, self.key.sink)
            producer.begin_transaction()
            reach(FailPoint.AFTER_BEGIN)
            result = writing.write(frame)
            self._commit(progress)
        except BatchCancelledError:
            # Close at once: Spark waits until the function of `foreachBatch` returns.
            self.close()
            raise
        except FencepostError as error:
            reason = self._reason(producer.resolve(error))
            self._abort()
            worded = in_spark_terms(reason, sink=str(self.key), batch=self._named(progress))
            if worded is error:
                raise
            # The cause is shown only if it is a different error. Otherwise the same error would be shown twice, the
            # second time in a worker's terms.
            raise worded from (error if worded is reason else None)
        except BaseException:
            self.close()
            raise
        return result

    def _commit(self, progress: Progress) -> None:
        self._check_topic()
        if not self._keeps_progress:
            reach(FailPoint.BEFORE_END_TXN)
            self._producer.commit_transaction()
            return
        committed = replace(progress, topic_id=self._topic_id)
        reach(FailPoint.BEFORE_OFFSETS, self.key.sink)
        self._log.write(self._producer, committed)
        reach(FailPoint.BEFORE_END_TXN)
        try:
            self._producer.commit_transaction()
        except UnknownOutcomeError as error:
            self.own()
            if self.last != committed:
                raise CommitLostError(f"The commit of {self._named(progress)} did not take place: {error}") from error
        self.last = committed
        reach(FailPoint.BEFORE_CALLBACKS)

    def _check_topic(self) -> None:
        """Raise TopicRecreatedError if the topic was created again, since the start or since earlier batches."""
        topic = self._config.topic
        if topic is None:
            return
        found = self._log.topic_id(topic)
        if self.last is None and self._topic_id is not None and found not in (None, self._topic_id):
            raise recreated(topic, str(self.key))
        check_topic(self.key, topic, Progress(topic_id=self._topic_id), found)
        # If the topic had no id at the start, the brokers have created it for the first record.
        self._topic_id = self._topic_id or found

    def _reason(self, error: FencepostError) -> FencepostError:
        """Return the reason for a write error: a topic that was created again may have fewer partitions than before.

        A topic that was created again is detected only if it is the sink's own topic. If only rows name the topic, the
        batch is written again, to the topic's present partitions.
        """
        if not isinstance(error, (BrokerRefusedError, PartitionGoneError)):
            return error
        try:
            self._check_topic()
        except TopicRecreatedError as recreated:
            return recreated
        except FencepostError:
            pass
        if isinstance(error, PartitionGoneError) and error.topic != self._config.topic:
            return TransactionAbortableError(
                f"Topic {error.topic} has no partition {error.partition} any more: it was deleted and created again"
            )
        return error

    def _count(self, result: WriteResult, progress: Progress) -> None:
        known = self.statistics
        self.statistics = replace(
            known,
            records=known.records + result.written,
            bytes=known.bytes + result.bytes,
            transactions=known.transactions + 1,
            last_batch=progress.batch,
            last_commit_ms=int(time.time() * 1000),
        )

    def _abort(self) -> None:
        with suppress(FencepostError):
            if self._producer.state is not TransactionState.READY:
                self._producer.abort_transaction()

    def _named(self, progress: Progress) -> str:
        return f"the {self.key}" if progress.batch is None else f"batch {progress.batch} of sink {self.key.sink}"


def _note_first(error: FencepostError, first: FencepostError | None, attempt: int) -> None:
    """If the first attempt failed differently, add its failure as a note to a later attempt's error."""
    # The error of a cancelled batch gets no note: Spark searches the error's text, and a long text overflows Spark's
    # stack.
    if first is not None and str(first) != str(error) and not isinstance(error, BatchCancelledError):
        error.add_note(f"This was attempt {attempt}. The first one failed otherwise: {first}")
