"""A connector's offsets where they are kept: in a compacted topic, written in the transactions of its tasks.

Tasks gather their offsets in OffsetRecords and write them in the transaction that holds the data. Nothing else is
written back into a store: it reads the topic, which alone knows what was committed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from fencepost.api.record import SourcePartition
from fencepost.kafka.admin import Admin
from fencepost.kafka.client_config import ClientConfig
from fencepost.kafka.topic_reader import DEFAULT_TIMEOUT_MS, TopicReader
from fencepost.storage.offset_records import OffsetRecords
from fencepost.storage.offset_table import OffsetTable

_LOG: Final = logging.getLogger(__name__)

DEFAULT_PARTITIONS: Final = 25
"""Connect's default of `offset.storage.partitions`."""


class OffsetStore:
    """The offsets of all connectors in one offsets topic. Threads may share it."""

    def __init__(self, config: ClientConfig, topic: str) -> None:
        self.topic = topic
        self.table = OffsetTable()
        self._reader = TopicReader(config, topic)
        self._reading = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ensure_topic(
        self,
        admin: Admin,
        *,
        partitions: int = DEFAULT_PARTITIONS,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> bool:
        """Create the topic, compacted, if it does not exist. True if it was created.

        The settings are the worker's `offset.storage.*`; errors are those of `Admin.ensure_compacted_topic`.
        """
        return admin.ensure_compacted_topic(
            self.topic, partitions=partitions, replication_factor=replication_factor, configs=configs
        )

    def refresh(self, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        """Take in everything that was committed before this call, waiting for transactions that are open.

        A few milliseconds where nothing is new. Raises what `TopicReader.read_to_end` does.
        """
        with self._reading:
            for record in self._reader.read_to_end(timeout_ms):
                if not self.table.apply(record.key, record.value, record.timestamp):
                    _LOG.warning(
                        "Record %d of %s-%d is not a source offset (key %r): it is left alone. Let only Connect "
                        "workers write to that topic",
                        record.offset, self.topic, record.partition, record.key,
                    )  # fmt: skip

    def offsets(
        self, connector: str, *, timeout_ms: float = DEFAULT_TIMEOUT_MS
    ) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return what is committed for a connector: its source partitions, each with its offset."""
        self.refresh(timeout_ms)
        return self.table.offsets(connector)

    def reader(self, connector: str, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> ConnectorOffsetReader:
        """Return what a connector and its tasks read their offsets with."""
        return ConnectorOffsetReader(self, connector, timeout_ms)

    def records(self, connector: str) -> OffsetRecords:
        """Return an empty collection of offsets for one task of a connector."""
        return OffsetRecords(connector, self.table)

    def close(self) -> None:
        """Let go of the connections. A read on another thread ends with an IllegalStateError."""
        self._reader.close()


class ConnectorOffsetReader:
    """Reads one connector's committed offsets; an `OffsetReader` of the author's API.

    Each call reads the topic to its end first, so it sees what any worker committed before.
    """

    def __init__(self, store: OffsetStore, connector: str, timeout_ms: float) -> None:
        self._store = store
        self._connector = connector
        self._timeout_ms = timeout_ms

    def offset(self, partition: SourcePartition) -> dict[str, Any] | None:
        """Return the last committed offset of a source partition, None if there is none."""
        return self.offsets([partition])[0]

    def offsets(self, partitions: Iterable[SourcePartition]) -> list[dict[str, Any] | None]:
        """Return the last committed offset of each source partition, in the order given."""
        self._store.refresh(self._timeout_ms)
        return [self._store.table.offset(self._connector, partition) for partition in partitions]
