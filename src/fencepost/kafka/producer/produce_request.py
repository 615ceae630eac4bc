"""Encodes Produce requests without copying their record batches, and decodes the answers.

The layout is "Produce API" at https://kafka.apache.org/protocol#The_Messages_Produce. From version 9 on, the encoding
is flexible (KIP-482). Version 12 means transaction version 2, and version 13 replaces topic names by ids.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fencepost.kafka.producer.transaction import TopicPartition, TransactionVersion
from fencepost.kafka.records.varints import unsigned_varint
from fencepost.kafka.transport.connection import Buffer

FIRST_FLEXIBLE_VERSION: Final = 9
_ALL_REPLICAS: Final = -1

HIGHEST_VERSION: Final = {TransactionVersion.V1: 11, TransactionVersion.V2: 12}
"""The highest version to use.

From version 12 on, the first batch of a partition adds the partition to the transaction.
"""


class EncodedBatch(Protocol):
    """One partition's record batch."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and the partition of the batch."""

    @property
    def parts(self) -> Sequence[Buffer]:
        """The bytes of the batch, in parts."""

    @property
    def size(self) -> int:
        """The number of bytes of the batch."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The answer about one partition's batch.

    `base_offset` and `timestamp` are -1 if the broker does not return them.
    """

    code: int
    base_offset: int
    timestamp: int
    message: str | None


def encode_produce(
    transactional_id: str | None, batches: Iterable[EncodedBatch], *, version: int, timeout_ms: int
) -> list[Buffer]:
    """Return the body of a request, as parts that are sent one after the other.

    There is at most one batch per partition.
    """
    by_topic: dict[str, list[EncodedBatch]] = defaultdict(list)
    for batch in batches:
        by_topic[batch.topic_partition[0]].append(batch)
    layout = _Flexible() if version >= FIRST_FLEXIBLE_VERSION else _Plain()
    parts: list[Buffer] = []
    # `head` collects small fields up to the next record batch. Record batches are not copied.
    head = (
        layout.nullable(transactional_id) + struct.pack(">hi", _ALL_REPLICAS, timeout_ms) + layout.count(len(by_topic))
    )
    for topic, of_topic in by_topic.items():
        head += layout.string(topic) + layout.count(len(of_topic))
        for batch in of_topic:
            head += struct.pack(">i", batch.topic_partition[1]) + layout.size(batch.size)
            parts += [head, *batch.parts]
            head = layout.end
        head += layout.end
    return [*parts, head + layout.end]


def produce_results(answer: Any) -> Iterator[tuple[TopicPartition, PartitionResult]]:
    """Yield the result of each partition in an answer."""
    for topic in answer.responses:
        for row in topic.partition_responses:
            message = getattr(row, "error_message", None)
            details = [entry.batch_index_error_message for entry in getattr(row, "record_errors", None) or ()]
            error_message = "; ".join(text for text in (message, *details) if text) or None
            result = PartitionResult(row.error_code, row.base_offset, row.log_append_time_ms, error_message)
            yield (topic.name, row.index), result


class _Plain:
    """The encoding with lengths of fixed width and without tagged fields."""

    end: Final = b""

    @classmethod
    def nullable(cls, text: str | None) -> bytes:
        return struct.pack(">h", -1) if text is None else cls.string(text)

    @staticmethod
    def string(text: str) -> bytes:
        encoded = text.encode()
        return struct.pack(">h", len(encoded)) + encoded

    @staticmethod
    def count(number: int) -> bytes:
        return struct.pack(">i", number)

    size = count


class _Flexible:
    """The flexible encoding: a length is an unsigned varint, plus 1 (0 is null).

    Each structure has an empty set of tagged fields.
    """

    end: Final = b"\0"

    @classmethod
    def nullable(cls, text: str | None) -> bytes:
        return b"\0" if text is None else cls.string(text)

    @classmethod
    def string(cls, text: str) -> bytes:
        encoded = text.encode()
        return cls.count(len(encoded)) + encoded

    @staticmethod
    def count(number: int) -> bytes:
        return unsigned_varint(number + 1)

    size = count
