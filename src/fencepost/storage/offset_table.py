"""The latest source offset of every source partition, built from the records of an offsets topic; no I/O."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from fencepost.api.record import SourcePartition
from fencepost.storage.offsets import OffsetKey, decode_key, encode_key, identity_of


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """What stands in the topic for a source partition. `value` is None where the offset was removed."""

    key: bytes
    value: bytes | None
    timestamp: int
    partition: dict[str, Any]


class OffsetTable:
    """Follows an offsets topic, record by record. Threads may share it.

    Source partitions are compared as maps, while Kafka compares keys as bytes: the same partition may have been
    written under several keys, as by a connector that names its parts in another order. Such keys may lie in
    different partitions of the topic, so the record with the latest timestamp wins. Its key is used for writing from
    then on, so that compaction replaces the record that counts; this is why removed offsets are remembered too.
    """

    def __init__(self) -> None:
        self._connectors: dict[str, dict[str, StoredOffset]] = {}
        # A topic that is not compacted yet has many records of each key.
        self._named: dict[bytes, OffsetKey] = {}
        self._lock = threading.Lock()

    def apply(self, key: bytes | None, value: bytes | None, timestamp: int) -> bool:
        """Take note of a record of the topic. False if its key is not one of an offset record."""
        if key is None:
            return False
        named = self._named.get(key) or decode_key(key)
        if named is None:
            return False
        record = StoredOffset(key, value, timestamp, named.partition)
        with self._lock:
            self._named[key] = named
            known = self._connectors.setdefault(named.connector, {})
            before = known.get(named.identity)
            if before is None or before.key == key or before.timestamp <= timestamp:
                known[named.identity] = record
        return True

    def key(self, connector: str, partition: SourcePartition) -> bytes:
        """Return the key to write a source partition's offset under. Raises DataError if it cannot be stored."""
        key = encode_key(connector, partition)
        stored = self.stored(connector, partition)
        return key if stored is None else stored.key

    def stored_of(self, connector: str) -> dict[str, StoredOffset]:
        """Return what stands in the topic for a connector, by `identity_of` the source partition."""
        with self._lock:
            return dict(self._connectors.get(connector, {}))

    def stored(self, connector: str, partition: SourcePartition) -> StoredOffset | None:
        """Return what stands in the topic for a source partition, None if it was never heard of."""
        with self._lock:
            return self._connectors.get(connector, {}).get(identity_of(partition))
