"""Encodes the records of a writer into batches that their topic accepts."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.errors import TransactionAbortableError
from fencepost.kafka.producer.partition_queue import Batch, sequence_after
from fencepost.kafka.producer.topic_limits import TopicLimits
from fencepost.kafka.producer.transaction import TopicPartition, Transaction
from fencepost.kafka.records.columns import Records
from fencepost.kafka.records.record_batch import OversizeRecordError, encode, split_by_bytes, surely_fits


class BatchEncoder:
    """Encodes batches of one transaction, or batches outside of transactions."""

    def __init__(self, config: ProducerConfig, transaction: Transaction, limits: TopicLimits) -> None:
        self._config = config
        self._transaction = transaction
        self._limits = limits

    def bounded(self, topic: str, records: Records) -> Iterator[Records]:
        """Split records at the size limit of a batch. `batch.size` does not limit a single record.

        Raises RecordTooLargeError for a record that is too large for any batch.
        """
        if surely_fits(records, self._limits.batch_bytes(topic)):
            yield records
            return
        start = 0
        while start < len(records):
            try:
                for piece in split_by_bytes(
                    records.slice(start, len(records) - start), self._limits.batch_bytes(topic)
                ):
                    yield piece
                    start += len(piece)
            except OversizeRecordError as error:
                self._limits.check_record(topic, error.size)
                yield records.slice(start, 1)
                start += 1

    def encode(self, topic_partition: TopicPartition, records: Records, sequence: int) -> Batch:
        """Return the batch of the records. `sequence` is the sequence number of the first one."""
        now_ms = int(time.time() * 1000)
        parts = encode(
            records,
            producer_id=self._transaction.producer_id,
            producer_epoch=self._transaction.producer_epoch,
            base_sequence=sequence,
            transactional=self._transaction.transactional_id is not None,
            compression=self._config.compression,
            compression_level=self._config.compression_level,
            now_ms=now_ms,
        )
        return Batch(topic_partition, sequence, records, parts, sum(len(part) for part in parts), now_ms)

    def halves(self, batch: Batch) -> list[Batch]:
        """Split a batch that the broker refused as too large into two batches.

        Raises RecordTooLargeError for a batch with a single record, and TransactionAbortableError for a batch that the
        broker may already have.
        """
        topic_partition, count = batch.topic_partition, len(batch.records)
        topic = topic_partition[0]
        self._limits.forget(topic)
        if count == 1:
            raise self._limits.too_large(topic, batch.size)
        if batch.maybe_written:
            # The broker may already have the whole batch. It would not recognize the halves as duplicates.
            raise TransactionAbortableError(
                f"A batch for topic {topic} became too large while it was sent again: it is sent in smaller batches in "
                "a new transaction"
            )
        middle = count // 2
        first = self.encode(topic_partition, batch.records.slice(0, middle), batch.base_sequence)
        second_sequence = sequence_after(batch.base_sequence, middle)
        return [first, self.encode(topic_partition, batch.records.slice(middle, count - middle), second_sequence)]
