"""The task count records of a config topic, for a standalone worker, which has no store of the whole topic."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from fencepost.kafka.consumer.read_to_end import DEFAULT_TIMEOUT_MS, TopicReader
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.storage.configs.leader_writer import write_in_transaction
from fencepost.storage.configs.task_count import decode_task_count, encode_task_count

_CONFIG_TOPIC_PARTITION: Final = 0

UNKNOWN_OFFSET: Final = -1
"""The offset of a record that the broker already had when it was sent again: the broker does not return it."""


class TaskCounts:
    """The task count records of a config topic, which has one partition. The `reader` is closed with it."""

    def __init__(self, reader: TopicReader) -> None:
        self.topic = reader.topic
        self._reader = reader
        self._counts: dict[str, int | None] = {}
        self._offsets: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, connector: str, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> int | None:
        """Return the latest committed count of a connector, None if there is none.

        Raises what `TopicReader.read_to_end` does.
        """
        for record in self._reader.read_to_end(timeout_ms):
            decoded = decode_task_count(record.key, record.value)
            if decoded is not None:
                self._counts[decoded[0]] = decoded[1]
                self._offsets[decoded[0]] = record.offset
        return self._counts.get(connector)

    def latest_offset(self, connector: str, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> int | None:
        """Return the offset of the latest committed task count record of a connector, None without one.

        Raises what `TopicReader.read_to_end` does.
        """
        self.read(connector, timeout_ms)
        return self._offsets.get(connector)

    def write(self, producer: TransactionalProducer, connector: str, count: int) -> int:
        """Write a connector's count in one transaction; return the record's offset, or UNKNOWN_OFFSET.

        `producer` is initialized under `leader_transactional_id`, which excludes all others. Raises ProducerFencedError
        if another producer took over the id, and what committing raises.
        """
        ends = write_in_transaction(producer, self.topic, [encode_task_count(connector, count)])
        return ends[_CONFIG_TOPIC_PARTITION] - 1 if ends else UNKNOWN_OFFSET

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()
