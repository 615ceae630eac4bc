"""Before a batch's transaction begins, lets the converters decide how to write its rows.

    worker, or driver of a sink   topics and types of the batch -> prepare() of each converter -> begin
    executors                     from_connect_data() of the pickled converters

The topics of rows are determined only if a converter makes such decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from fencepost.api.errors import RetriableError
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.plugin_calls import call_plugin
from fencepost.api.schema_name import IDENTITY
from fencepost.engine.column_types import ColumnTypes, by_identity
from fencepost.engine.errors import PreparationWaitsError
from fencepost.engine.pipeline import Pipeline


def has_decisions(pipeline: Pipeline) -> bool:
    """Whether a converter of the pipeline overrides `prepare`."""
    converters: tuple[Converter | HeaderConverter, ...] = (
        pipeline.key_converter, pipeline.value_converter, pipeline.header_converter,
    )  # fmt: skip
    return any(_decides(converter) for converter in converters)


def prepare_topics(pipeline: Pipeline, topics: Iterable[str], types: ColumnTypes) -> None:
    """Prepare the converters for rows of these types. Raises the converters' errors, and PreparationWaitsError."""
    for topic in topics:
        if types.has_headers and not types.raw_headers:
            _prepare(pipeline.header_converter, topic, types.header)
        if types.has_key:
            _prepare(pipeline.key_converter, topic, types.key)
        _prepare(pipeline.value_converter, topic, types.value)


def prepare_columns(pipeline: Pipeline, topic: str, types: ColumnTypes, columns: Iterable[pa.RecordBatch]) -> None:
    """Prepare the converters for rows of a topic, as `prepare_topics` does, but not for columns that are all null."""
    columns = list(columns)

    def has_any(name: str) -> bool:
        return any(batch[name].null_count < batch.num_rows for batch in columns)

    for name in topics_in(columns, topic) if types.has_topic else [topic]:
        if types.has_headers and not types.raw_headers and has_any("headers"):
            _prepare(pipeline.header_converter, name, types.header)
        if types.has_key and has_any("key"):
            _prepare(pipeline.key_converter, name, types.key)
        if has_any("value"):
            for kind in _value_types(columns, types, name):
                _prepare(pipeline.value_converter, name, kind)


def _value_types(columns: Iterable[pa.RecordBatch], types: ColumnTypes, topic: str) -> Iterator[t.DataType | None]:
    """Return the types of a topic's values, one for each name and version of a schema."""
    if IDENTITY not in {name for batch in columns for name in batch.schema.names}:
        yield types.value
        return
    found: dict[str, t.DataType | None] = {}
    for batch in columns:
        rows = batch.filter(pc.equal(batch["topic"], topic)) if types.has_topic else batch
        found |= {str(getattr(kinds.value, "identity", "")): kinds.value for _, kinds in by_identity(rows, types)}
    yield from found.values()


def prepare_headers(pipeline: Pipeline, topic: str) -> None:
    """Prepare the header converter for headers without a schema. Raises the same errors as `prepare_topics`."""
    _prepare(pipeline.header_converter, topic, None)


def topics_in(batches: Iterable[pa.RecordBatch], default: str | None) -> list[str]:
    """The topics that rows name, in order.

    A row without a topic has the topic `default`; if that is None, it is left out.
    """
    found: dict[str | None, None] = {}
    for batch in batches:
        found |= dict.fromkeys(batch["topic"].unique().to_pylist())
    named = dict.fromkeys(default if topic is None else topic for topic in found)
    return [topic for topic in named if topic is not None]


def _prepare(converter: Converter | HeaderConverter, topic: str, schema: t.DataType | None) -> None:
    if not _decides(converter) or isinstance(schema, t.NullType):
        return
    try:
        call_plugin(f"prepare() of {type(converter).__name__}", converter.prepare, topic, schema)
    except RetriableError as error:
        raise PreparationWaitsError(str(error)) from error


def _decides(converter: Converter | HeaderConverter) -> bool:
    return type(converter).prepare not in (Converter.prepare, HeaderConverter.prepare)
