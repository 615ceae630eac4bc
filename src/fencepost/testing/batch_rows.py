"""The rows of a SourceBatch as records, read in the test's own process."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.errors import DataError
from fencepost.api.plugin_calls import call_plugin, iterate_plugin
from fencepost.api.record import SourceBatch, SourceRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS: Final = frozenset({"value", "key", "topic", "partition", "timestamp", "headers"})


def rows_of(batch: SourceBatch, topic: str | None) -> list[SourceRecord]:
    """Return a record for each row, in order.

    `topic` is the connector's, used if neither the batch nor the row has one.

    If the batch has a single offset, its records have that offset; other records have an empty offset. Raises DataError
    for columns that a worker would refuse or drop, and the errors of the batch's reader.
    """
    partition, offset = batch.offsets[0] if len(batch.offsets) == 1 else ({}, {})
    rows = _rows(batch)
    return [_record(row, partition, offset or {}, batch.topic or topic) for row in rows]


def _rows(batch: SourceBatch) -> Iterable[dict[str, Any]]:
    if batch.columns is not None:
        rows: list[dict[str, Any]] = batch.columns.to_pylist()
        return rows
    return _read_frame(batch.dataframe) if batch.dataframe is not None else _read_splits(batch)


def _read_frame(frame: DataFrame) -> Iterator[dict[str, Any]]:
    for row in call_plugin("The DataFrame of the SourceBatch", frame.toLocalIterator):
        yield row.asDict(recursive=True)


def _read_splits(batch: SourceBatch) -> Iterator[dict[str, Any]]:
    from pyspark import cloudpickle  # noqa: PLC0415 - takes half a second, and only batches with a reader need it

    for split in batch.splits:
        # Pickled as for an executor, so that only the pickled state is used.
        reader, part = pickle.loads(cloudpickle.dumps((batch.reader, split)))  # type: ignore[no-untyped-call]  # noqa: S301 - of our own making
        for rows in iterate_plugin("The reader of the SourceBatch", reader.read(part)):
            yield from rows.to_pylist()


def _record(row: Mapping[str, Any], partition: Any, offset: Any, topic: str | None) -> SourceRecord:
    if "value" not in row or row.keys() - _COLUMNS:
        raise DataError(
            f"The rows of the SourceBatch have the columns {', '.join(row)}: there must be value, and there may be key, "
            "topic, partition, timestamp and headers. Put the columns of the data into value, with struct(...)"
        )
    named = row.get("topic") or topic
    if named is None:
        raise DataError(
            "The rows of the SourceBatch have no topic: add a column topic, the batch's topic, or the connector's "
            "property topic"
        )
    return SourceRecord(
        partition,
        offset,
        named,
        value=row["value"],
        key=row.get("key"),
        partition=row.get("partition"),
        timestamp=_milliseconds(row.get("timestamp")),
        headers=[(header["key"], header["value"]) for header in row.get("headers") or ()],
    )


def _milliseconds(timestamp: datetime | int | None) -> int | None:
    return int(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else timestamp
