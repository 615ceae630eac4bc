"""Records of an offsets topic, as a topic reader returns them."""

from __future__ import annotations

from fencepost.kafka.consumer.fetch_decoder import NO_PRODUCER, ConsumedRecord
from fencepost.storage.offsets.codec import OffsetMark
from fencepost.storage.offsets.table import OffsetTable


def apply(
    table: OffsetTable,
    key: bytes | None,
    value: bytes | None,
    timestamp: int = 1,
    *,
    place: int = 0,
    mark: OffsetMark | None = None,
    producer: tuple[int, int] = NO_PRODUCER,
) -> bool:
    """Apply a record in partition `place` to a table; without a mark the record is like Connect's."""
    headers = mark.headers() if mark else ()
    return table.apply(ConsumedRecord("offsets", place, 0, timestamp, key, value, headers, producer))
