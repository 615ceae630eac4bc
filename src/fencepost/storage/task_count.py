"""Task count records: how many tasks of a connector must be fenced before its next ones may start (KIP-618).

A record in the config topic says with how many tasks a connector last ran: key `tasks-fencing-<connector>`, value
`{"task-count":N}`. The KIP's text has `tasks-count-<connector>` and `{"tasks":N}` instead, which is read as well.
"""

from __future__ import annotations

import json
import logging
from types import TracebackType
from typing import Final, Self

from fencepost.kafka.client_config import ClientConfig
from fencepost.kafka.plain_producer import Row
from fencepost.kafka.producer import TransactionalProducer
from fencepost.kafka.topic_reader import DEFAULT_TIMEOUT_MS, TopicReader
from fencepost.storage.compact_json import compact
from fencepost.storage.config_writer import write_in_transaction

_LOG: Final = logging.getLogger(__name__)

# Key prefix and the field that holds the count: as shipped, and as the KIP spells it.
_SPELLINGS: Final = (("tasks-fencing-", "task-count"), ("tasks-count-", "tasks"))
_CONFIG_TOPIC_PARTITION: Final = 0

UNKNOWN_OFFSET: Final = -1
"""Of a record that the broker had already when it was sent again: it does not say where."""


def leader_transactional_id(group_id: str) -> str:
    """Return the id under which a group's leader writes to the config topic."""
    return f"connect-cluster-{group_id}"


def task_transactional_id(group_id: str, connector: str, task: int) -> str:
    """Return the id under which a source task writes."""
    return f"{group_id}-{connector}-{task}"


def fencing_plan(old_count: int | None, new_count: int) -> range | None:
    """Return which tasks of the old generation must be fenced before `new_count` tasks may start.

    None where fencing is not needed: no task ever ran (`old_count` None), or one task follows one, which fences its
    predecessor by taking over the same transactional id. Tasks that deliver at least once have no transactional ids,
    and do not count.
    """
    if old_count is None or old_count == new_count == 1:
        return None
    return range(old_count)


def encode_task_count(connector: str, count: int | None) -> Row:
    """Return key and value of a connector's task count record; None takes the count back."""
    prefix, field = _SPELLINGS[0]
    return f"{prefix}{connector}".encode(), None if count is None else compact({field: count})


def decode_task_count(key: bytes | None, value: bytes | None) -> tuple[str, int | None] | None:
    """Return connector and count; None for a record that is not a task count. A null value means no count."""
    text = (key or b"").decode(errors="replace")
    for prefix, field in _SPELLINGS:
        connector = text.removeprefix(prefix)
        if connector in ("", text):
            continue
        if value is None:
            return connector, None
        count = _count_in(value, field)
        if count is None:
            _LOG.warning("The task count record %s has the malformed value %r: it is left alone", text, value[:200])
            return None
        return connector, count
    return None


def _count_in(value: bytes, field: str) -> int | None:
    try:
        count = json.loads(value)[field]
    except (ValueError, LookupError, TypeError):
        return None
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


class TaskCounts:
    """The task count records of a config topic, which has one partition."""

    def __init__(self, config: ClientConfig, topic: str) -> None:
        self.topic = topic
        self._reader = TopicReader(config, topic)
        self._counts: dict[str, int | None] = {}
        self._offsets: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, connector: str, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> int | None:
        """Return the latest count that is committed for a connector, None if there is none.

        Raises what `TopicReader.read_to_end` does.
        """
        for record in self._reader.read_to_end(timeout_ms):
            decoded = decode_task_count(record.key, record.value)
            if decoded is not None:
                self._counts[decoded[0]] = decoded[1]
                self._offsets[decoded[0]] = record.offset
        return self._counts.get(connector)

    def latest_offset(self, connector: str, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> int | None:
        """Return the offset of the latest task count record that is committed for a connector, None without one.

        Raises what `TopicReader.read_to_end` does.
        """
        self.read(connector, timeout_ms)
        return self._offsets.get(connector)

    def write(self, producer: TransactionalProducer, connector: str, count: int) -> int:
        """Write a connector's count in a transaction of its own; return the record's offset, or UNKNOWN_OFFSET.

        `producer` is initialized under `leader_transactional_id`, which keeps all others from writing. Raises
        ProducerFencedError if another one took that over, and what committing raises.
        """
        ends = write_in_transaction(producer, self.topic, [encode_task_count(connector, count)])
        return ends[_CONFIG_TOPIC_PARTITION] - 1 if ends else UNKNOWN_OFFSET

    def close(self) -> None:
        """Let go of the connections."""
        self._reader.close()
