"""Committed source offsets in memory, in the same form as in Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.storage.offsets.codec import decode_key, decode_value, encode_key, encode_value, identity_of


class SourceOffsets:
    """The committed offsets of one connector. Implements `fencepost.OffsetReader`.

    Partitions and offsets are stored as the JSON that a worker would write. So a task gets the same values as from a
    worker, and values that cannot be stored are refused in the same way.
    """

    def __init__(
        self, committed: Iterable[tuple[SourcePartition, SourceOffset]] = (), *, connector: str = "test"
    ) -> None:
        """Commit the given offsets. Raises the errors of `commit`."""
        self._connector = connector
        self._committed: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {}
        self.commit(committed)

    def offset(self, partition: SourcePartition) -> dict[str, Any] | None:
        """Return the committed offset of a source partition; None if there is none. Raises DataError."""
        identity, _ = self._key(partition)
        found = self._committed.get(identity)
        return None if found is None else dict(found[1])

    def offsets(self, partitions: Iterable[SourcePartition]) -> list[dict[str, Any] | None]:
        """Return the committed offset of each source partition, in the order given. Raises DataError."""
        return [self.offset(partition) for partition in partitions]

    def commit(self, offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]]) -> None:
        """Store `(source_partition, source_offset)` pairs; None removes an offset.

        Raises DataError for values that a worker could not write: only text, numbers, booleans and None can be stored.
        """
        for partition, offset in offsets:
            identity, kept = self._key(partition)
            decoded = decode_value(encode_value(self._connector, offset))
            if decoded is not None:
                self._committed[identity] = kept, decoded
            else:
                self._committed.pop(identity, None)

    def copy(self) -> Self:
        """Return a copy. Later commits do not change it."""
        copied = type(self)(connector=self._connector)
        copied._committed = dict(self._committed)  # noqa: SLF001 - of its own class
        return copied

    def items(self) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
        """Return the `(source_partition, source_offset)` pairs, in the order of the partitions' first commits."""
        return [(partition, dict(offset)) for partition, offset in self._committed.values()]

    def __repr__(self) -> str:
        return f"SourceOffsets({self.items()!r})"

    def _key(self, partition: SourcePartition | None) -> tuple[str, dict[str, Any] | None]:
        key = decode_key(encode_key(self._connector, partition))
        kept = None if key is None else key.partition
        return identity_of(kept), kept
