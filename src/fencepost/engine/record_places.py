"""Checks a row's topic, partition and timestamp, and the names of its headers, before the row is converted.

If a record cannot have one of these values, that is an error of the row, which `errors.tolerance` may skip. If the
record were sent to Kafka, it would fail the whole transaction. That is why Connect skips such records only if its
producer has no transactions (KIP-779).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api.errors import DataError
from fencepost.api.topic_names import RULE, is_topic_name
from fencepost.engine.column_types import ColumnTypes
from fencepost.engine.errors import AllRowsRefusedError
from fencepost.kafka.records.columns import check_header_names, normalize_timestamp

_HIGHEST_PARTITION: Final = 2**31 - 1


def check_places(topic: str, rows: pa.RecordBatch, types: ColumnTypes) -> None:
    """Check rows of one topic. Raises DataError for invalid values, and AllRowsRefusedError for an invalid topic."""
    if not is_topic_name(topic):
        raise AllRowsRefusedError(DataError(f"A record is for the topic {topic!r}, and {RULE}"))
    if types.has_timestamp:
        timestamps(topic, rows["timestamp"])
    if types.has_partition:
        partitions(topic, rows["partition"])
    if types.has_headers:
        check_header_names(rows["headers"])


def partitions(topic: str, given: pa.Array) -> pa.Array:
    """Return partitions as int32. Raises DataError for a number that no partition can have."""
    for bound in pc.min_max(given).as_py().values():
        if bound is not None and not 0 <= bound <= _HIGHEST_PARTITION:
            raise DataError(
                f"A record for topic {topic} has {bound} in the column 'partition', and no topic has such a partition: "
                "correct the column, or leave it out"
            )
    return given.cast(pa.int32())


def timestamps(topic: str, given: pa.Array) -> pa.Array:
    """Return timestamps in milliseconds. Raises DataError for a negative timestamp.

    Spark's own Kafka sink refuses negative timestamps, too. Brokers would accept them, but clients would fail to
    process the record. In Kafka, -1 means that there is no timestamp.
    """
    found = normalize_timestamp(given)
    least = pc.min(found).as_py()
    if least is not None and least < 0:
        raise DataError(
            f"A record for topic {topic} has the timestamp {least}, which is before 1970: leave it out, or null, for the "
            "time of sending"
        )
    return found
