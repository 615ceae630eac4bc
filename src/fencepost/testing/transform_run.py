"""Calls a transform in the same way as a worker, but without Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.api.plugin import Transformation
from fencepost.api.plugin_metrics import Monitorable
from fencepost.api.record import SourceRecord
from fencepost.testing.spark import spark_session

if TYPE_CHECKING:
    import pyarrow as pa

_TOPIC = "topic"


def run_transform(
    transform: type[Transformation] | str, rows: Sequence[Any], config: Mapping[str, str] | None = None
) -> list[SourceRecord]:
    """Return the records that a transform makes of some rows, which are values or SourceRecords.

    The transform is a class, or the name of one as in `transforms.<alias>.type`, such as Sql. `config` are the
    properties below `transforms.<alias>.`. The returned records have the source partition and offset of their original
    row; header values are bytes. A transform that is not a function starts Spark. Raises ConfigError for an unknown
    name and for invalid properties, and the errors of the transform.
    """
    # These modules import pyspark and Arrow, which takes a second.
    from fencepost.config.plugin_sources import ANY_MODULE  # noqa: PLC0415
    from fencepost.config.plugins import PluginKind, find_plugin  # noqa: PLC0415
    from fencepost.converters.simple_header_converter import SimpleHeaderConverter  # noqa: PLC0415
    from fencepost.converters.string_converter import StringConverter  # noqa: PLC0415
    from fencepost.engine.error_handler import ErrorHandler  # noqa: PLC0415
    from fencepost.engine.function_steps import is_function  # noqa: PLC0415
    from fencepost.engine.grouping import group_records  # noqa: PLC0415
    from fencepost.engine.pipeline import Pipeline  # noqa: PLC0415
    from fencepost.engine.plugin_counts import DetachedMetrics  # noqa: PLC0415
    from fencepost.engine.spark.transform import GroupPlans, transform_group  # noqa: PLC0415
    from fencepost.transforms.chain import Step  # noqa: PLC0415

    if isinstance(transform, str):
        transform = find_plugin(PluginKind.TRANSFORMATION, transform, property_name="type", sources=ANY_MODULE)
    plugin = transform()
    plugin.configure(dict(config or {}))
    if isinstance(plugin, Monitorable):
        plugin.with_plugin_metrics(DetachedMetrics())
    key, value, headers = StringConverter(), StringConverter(), SimpleHeaderConverter()
    headers.configure({})
    pipeline = Pipeline([Step(plugin)], key, value, headers)
    records = [
        row if isinstance(row, SourceRecord) else SourceRecord({}, {"row": number}, _TOPIC, row)
        for number, row in enumerate(rows)
    ]
    found: list[tuple[int, SourceRecord]] = []
    session = None if is_function(pipeline.transforms[0]) else spark_session()
    for group in group_records(records, pipeline, ErrorHandler(pipeline.errors), structured=True):
        batches, _ = transform_group(session, group, pipeline, GroupPlans())
        found += [(row, record) for batch in batches for row, record in _records(batch, records)]
    return [record for _, record in sorted(found, key=lambda one: one[0])]


def _records(batch: pa.RecordBatch, given: Sequence[SourceRecord]) -> list[tuple[int, SourceRecord]]:
    columns = {name: _plain(batch[name]) for name in ("topic", "partition", "key", "value", "timestamp", "headers")}
    found = []
    for position, row in enumerate(batch["__fencepost_row"].to_pylist()):
        origin = given[row]
        record = SourceRecord(
            origin.source_partition,
            origin.source_offset,
            columns["topic"][position],
            columns["value"][position],
            key=columns["key"][position],
            partition=columns["partition"][position],
            timestamp=columns["timestamp"][position],
            headers=[(header["key"], header["value"]) for header in columns["headers"][position] or ()],
        )
        found.append((row, record))
    return found


def _plain(column: Any) -> list[Any]:
    """Return the values of a column. Structures without a schema are JSON texts."""
    if str(column.type).startswith("extension<arrow.json"):
        return [None if text is None else json.loads(text) for text in column.storage.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values
