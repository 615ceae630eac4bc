"""An offsets topic as a store: compacted, with the offsets of all connectors that commit to it.

Tasks gather their offsets in OffsetRecords and write them in the transaction that holds the data. Nothing else is
written back into a store: it reads the topic, which alone knows what was committed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from fencepost.kafka.admin import Admin
from fencepost.kafka.client_config import ClientConfig
from fencepost.kafka.topic_reader import DEFAULT_TIMEOUT_MS, TopicReader
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

    def close(self) -> None:
        """Let go of the connections. A read on another thread ends with an IllegalStateError."""
        self._reader.close()
