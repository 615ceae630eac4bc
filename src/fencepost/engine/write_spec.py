"""The data that every writer of a part of a batch needs, in the worker and on Spark's executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fencepost.engine.pipeline import Pipeline
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.producer.sender import RecordWriter
from fencepost.kafka.producer.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSpec:
    """How the rows of one batch are converted and written. Can be pickled after `for_executors`.

    `start` varies from batch to batch: it shifts the partition of the first run of records without key and partition.
    `partitions` are the worker's known numbers of partitions of topics.
    """

    pipeline: Pipeline
    config: ProducerConfig
    transaction: Transaction
    topic_gate: TopicGate
    start: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)

    def for_executors(self, partitions: Mapping[str, int]) -> WriteSpec:
        """Return the part for executors: without the transforms, which Spark itself applies."""
        return replace(self, pipeline=self.pipeline.without_transforms(), partitions=partitions)

    def writer(self) -> RecordWriter:
        """Return a writer for a process that the transaction was lent to."""
        return RecordWriter(self.config, self.transaction)
