"""Writes dead letters into the transaction of the batch that contained the refused records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from fencepost.engine.conversion import Converted
from fencepost.engine.dead_letters import DeadLetter, letter_records
from fencepost.engine.routing import Ownership, PartitionCounts, Router
from fencepost.engine.write_spec import WriteSpec
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.kafka.producer.record_producer import RecordProducer

_LETTERS: Final = 10_000
"""The number of dead letters that are written together."""


def write_letters(
    letters: Sequence[DeadLetter],
    spec: WriteSpec,
    producer: RecordProducer,
    task: str,
    check: Callable[[], None] = lambda: None,
) -> list[Ack]:
    """Write dead letters. Call this when the batch's other records are acknowledged.

    `check` may raise an error to stop the write.

    If there is no topic for dead letters, nothing is written.
    """
    topic = spec.pipeline.dead_letter_topic
    if not letters or topic is None:
        return []
    spec.topic_gate.admit({topic})
    with closing(producer.writer()) as writer:
        counts = PartitionCounts({}, writer.partitions, writer.grown_partitions)
        router = Router(counts, counts.beyond, Ownership(), run_bytes=spec.config.batch_size, start=spec.start)
        for start in range(0, len(letters), _LETTERS):
            check()
            records = letter_records(letters[start : start + _LETTERS], task)
            for routed in router.route(Converted(topic, records)):
                writer.write(routed.topic, routed.partition, routed.records)
        acks = writer.flush()
        producer.acknowledge(acks)
    return acks
