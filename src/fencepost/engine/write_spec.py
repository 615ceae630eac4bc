"""The data that every writer of a batch needs, in the worker or on Spark's executors."""

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
    """How the rows of one batch are converted and written. The result of `for_executors` can be pickled.

    `start` differs from batch to batch, so that small batches do not all go to the same partition. It shifts the
    partition of the first run of consecutive records without key and partition, which go to one partition (see
    `Router`). It also shifts which writer owns which partitions. `partitions` maps each topic that the worker knows to
    its partition count.
    """

    pipeline: Pipeline
    config: ProducerConfig
    transaction: Transaction
    topic_gate: TopicGate
    start: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)

    def for_executors(self, partitions: Mapping[str, int]) -> WriteSpec:
        """Return the data that executors need. They do not include the transforms, which Spark itself applies."""
        return replace(self, pipeline=self.pipeline.without_transforms(), partitions=partitions)

    def writer(self) -> RecordWriter:
        """Return a writer for a process to which the transaction was lent."""
        return RecordWriter(self.config, self.transaction)
