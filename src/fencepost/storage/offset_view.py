"""A connector's offsets in its own topic, laid over those in the worker's offsets topic; no I/O (KIP-618).

The connector's own topic has the last word about each source partition that it knows, and a removal there counts as
well: it hides what the worker's topic says. What the own topic has never heard of is looked up in the worker's, so that
a connector which gets a topic of its own goes on where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.storage.offset_table import OffsetTable, StoredOffset
from fencepost.storage.offsets import decode_value, encode_key


class OffsetView:
    """One connector's offsets in `own`, and below that in `shared` if there is one. Threads may share it."""

    def __init__(self, connector: str, own: OffsetTable, shared: OffsetTable | None = None) -> None:
        self._connector = connector
        self._own = own
        self._shared = OffsetTable() if shared is None else shared

    def offset(self, partition: SourcePartition) -> dict[str, Any] | None:
        """Return a source partition's offset, None if it has none. Raises DataError if the stored one is malformed."""
        own, shared = self._stored(partition)
        return _offset(shared if own is None else own)

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the source partitions that have an offset, with it. Raises DataError for malformed ones."""
        merged = self._shared.stored_of(self._connector) | self._own.stored_of(self._connector)
        decoded = ((stored.partition, _offset(stored)) for stored in merged.values())
        return [(dict(partition), offset) for partition, offset in decoded if offset is not None]

    def partitions(self) -> list[dict[str, Any]]:
        """Return the source partitions of which either topic has an offset, though a removal in `own` may hide it."""
        stored = [self._shared.stored_of(self._connector), self._own.stored_of(self._connector)]
        found = {identity: one.partition for table in stored for identity, one in table.items() if one.value}
        return [dict(partition) for partition in found.values()]

    def uncopied(self, partitions: Iterable[SourcePartition]) -> list[tuple[SourcePartition, SourceOffset | None]]:
        """Return what `own` has for these source partitions and `shared` has otherwise; None for removed offsets.

        Raises DataError if what `own` has is malformed.
        """
        uncopied: list[tuple[SourcePartition, SourceOffset | None]] = []
        for partition in partitions:
            own, shared = self._stored(partition)
            if own is not None and own.value != (None if shared is None else shared.value):
                uncopied.append((partition, _offset(own)))
        return uncopied

    def _stored(self, partition: SourcePartition) -> tuple[StoredOffset | None, StoredOffset | None]:
        encode_key(self._connector, partition)
        return self._own.stored(self._connector, partition), self._shared.stored(self._connector, partition)


def _offset(stored: StoredOffset | None) -> dict[str, Any] | None:
    return None if stored is None else decode_value(stored.value)
