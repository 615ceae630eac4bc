"""Converts columns of Connect data to Kafka records, using Arrow arrays.

`column_types` describes the columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.plugin_calls import call_plugin, kind_of
from fencepost.api.schema_name import IDENTITY
from fencepost.api.topic_names import is_topic_name
from fencepost.engine.column_types import ColumnTypes, by_identity
from fencepost.engine.dead_letters import contents_of
from fencepost.engine.error_handler import ErrorHandler, StageRows
from fencepost.engine.errors import ConverterContractError
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.record_places import check_places, partitions, timestamps
from fencepost.engine.refused_records import Stage
from fencepost.kafka.records.columns import HEADERS, Records, concat_binary, normalize

ROW: Final = "__fencepost_row"
"""The column with the number of a row's record: its position in the poll, or the row's number before the transforms."""
FOLLOWED: Final = "__fencepost_followed"
"""The column that says whether the next row comes from the same polled record.

The column exists only if transforms made several rows of one record.
"""

_PRODUCER: Final = "RecordProducer"
"""The plugin that messages name for a refused topic, partition or timestamp of a row if there are no transforms."""
_PLAIN: Final = (pa.binary(), pa.large_binary())


@dataclass(frozen=True, slots=True)
class Converted:
    """Rows of one topic as Kafka records.

    `partition` is int32, null if a row does not define its partition. `rows` are the positions of polled records.
    `followed` marks the rows that are followed by another row of the same record; None if there are no such rows.
    """

    topic: str
    records: Records
    partition: pa.Array | None = None
    rows: pa.Array | None = None
    followed: pa.Array | None = None

    @property
    def positions(self) -> np.ndarray:
        """The position of each row in the batch: `rows` for polled records, else the rows counted from 0."""
        if self.rows is None:
            return np.arange(len(self.records), dtype=np.int64)
        return np.asarray(self.rows.to_numpy())

    def slices(self, count: int) -> Iterator[Converted]:
        """Yield the rows in parts of `count` rows, without copying them."""
        for offset in range(0, len(self.records), count):
            yield Converted(
                self.topic,
                self.records.slice(offset, count),
                None if self.partition is None else self.partition.slice(offset, count),
                None if self.rows is None else self.rows.slice(offset, count),
                None if self.followed is None else self.followed.slice(offset, count),
            )

    @property
    def last_positions(self) -> np.ndarray:
        """The positions of all rows, but -1 for a row that is followed by another row of the same polled record."""
        if self.followed is None:
            return self.positions
        return np.where(self.followed.to_numpy(zero_copy_only=False), -1, self.positions)

    def without(self, refused: AbstractSet[int]) -> Converted:
        """Return these rows without the rows of refused records.

        `refused` may contain many records that have no rows here.
        """
        kept = pa.array([row not in refused for row in self.positions.tolist()], pa.bool_())
        columns = (self.partition, self.rows, self.followed)
        left = (None if column is None else column.filter(kept) for column in columns)
        return Converted(self.topic, self.records.take(pa.array(np.flatnonzero(kept))), *left)


def in_record_order(groups: Iterable[Converted]) -> list[Converted]:
    """Join the groups of each topic, with rows in the order in which their records were polled."""
    by_topic: defaultdict[str, list[Converted]] = defaultdict(list)
    for group in groups:
        by_topic[group.topic].append(group)
    return [parts[0] if len(parts) == 1 else _merged(topic, parts) for topic, parts in by_topic.items()]


def _merged(topic: str, parts: Sequence[Converted]) -> Converted:
    rows = np.concatenate([part.positions for part in parts])
    order = pa.array(np.argsort(rows, kind="stable"))
    partitions = [
        pa.nulls(len(part.records), pa.int32()) if part.partition is None else part.partition for part in parts
    ]
    followed = [
        pa.repeat(pa.scalar(False), len(part.records)) if part.followed is None else part.followed for part in parts
    ]
    return Converted(
        topic,
        Records.concat([part.records for part in parts]).take(order),
        pa.concat_arrays(partitions).take(order),
        pa.array(np.sort(rows)),
        None if all(part.followed is None for part in parts) else pa.concat_arrays(followed).take(order),
    )


def with_followed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return transformed rows, with a column FOLLOWED if a polled record became several rows."""
    rows = batch[ROW].to_numpy()
    same = rows[1:] == rows[:-1]
    return batch.append_column(FOLLOWED, pa.array(np.append(same, False))) if same.any() else batch


def convert(
    batch: pa.RecordBatch, types: ColumnTypes, pipeline: Pipeline, errors: ErrorHandler, topic: str | None = None
) -> Iterator[Converted]:
    """Convert rows to records, topic by topic. Rows of one topic keep their order.

    `topic` is used for rows that name no topic; without it, the pipeline's default topic is used. If `errors` tolerates
    refused rows, these are skipped: rows that a converter refuses, and rows with a topic, partition or timestamp that a
    record cannot have. If a record became several rows, all of its rows are skipped; they are all in this batch. Raises
    RecordRefusedError if `errors` does not tolerate refused rows, and DataError for rows without a topic.
    """
    topics = _by_topic(batch, types, topic or pipeline.default_topic)
    parts: Iterable[tuple[str, pa.RecordBatch, ColumnTypes]] = ((name, rows, types) for name, rows in topics)
    if IDENTITY in batch.schema.names:
        parts = ((name, *part) for name, rows, kinds in parts for part in by_identity(rows, kinds))
    found: Iterable[Converted] = (_convert_topic(name, rows, kinds, pipeline, errors) for name, rows, kinds in parts)
    if ROW in batch.schema.names and batch.num_rows:
        # A record may have rows for several topics. If a row is refused, the rows of earlier topics are removed here.
        found = list(found)
        if errors.refused:
            found = [converted.without(errors.refused) for converted in found]
        errors.forget_inputs(before=batch[ROW][-1].as_py())
    yield from (converted for converted in found if len(converted.records))


def _by_topic(batch: pa.RecordBatch, types: ColumnTypes, default: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    if batch.num_rows == 0:
        return
    if not types.has_topic:
        yield require_topic(default), batch
        return
    topics = batch["topic"]
    if topics.null_count:
        topics = pc.fill_null(topics, require_topic(default))
    distinct = topics.unique()
    if len(distinct) == 1:
        yield _text(distinct[0]), batch
        return
    for name in distinct:
        yield _text(name), batch.filter(pc.equal(topics, name))


def _text(name: pa.Scalar) -> str:
    """The name of a topic as text. Bytes that are not UTF-8, which Spark casts unchecked, are shown as escapes."""
    try:
        return str(name.as_py())
    except UnicodeDecodeError:
        return str(name.as_buffer().to_pybytes().decode(errors="backslashreplace"))


def require_topic(topic: str | None) -> str:
    """The topic for rows that name no topic. Raises DataError if there is none."""
    if topic is None:
        raise DataError(
            "There are rows that have no topic: give them a column 'topic' with one in each row, or set 'topic', which is "
            "for rows without one"
        )
    return topic


def _convert_topic(
    topic: str, batch: pa.RecordBatch, types: ColumnTypes, pipeline: Pipeline, errors: ErrorHandler
) -> Converted:
    """Convert the rows of one topic to records. Refused rows that are tolerated are left out."""
    rows = _Rows(topic, batch, errors)
    if types.has_timestamp or types.has_partition or types.has_headers or not is_topic_name(topic):
        rows.check(pipeline.transform_names or _PRODUCER, lambda part: check_places(topic, part, types))
    if types.has_headers and not types.raw_headers:
        header = pipeline.header_converter
        rows.pass_stage(
            Stage.HEADER_CONVERTER, header, "headers", lambda part: convert_headers(topic, types.header, part, header)
        )
    if types.has_key:
        key = pipeline.key_converter
        rows.pass_stage(
            Stage.KEY_CONVERTER,
            key,
            "key",
            lambda part: _with_nulls(converted_by(key, topic, types.key, part), part, keep=types.batch),
        )
    value = pipeline.value_converter
    rows.pass_stage(
        Stage.VALUE_CONVERTER,
        value,
        "value",
        lambda part: _with_nulls(
            converted_by(value, topic, types.value, _json(part) if types.json_values else part),
            part,
            keep=types.batch or types.null_values,
        ),
    )
    left = rows.batch
    headers = rows.converted.get("headers", left["headers"] if types.has_headers else None)
    if types.has_key:
        headers = _with_header(headers, pipeline.key_converter, topic, types.key, rows.converted["key"])
    headers = _with_header(headers, value, topic, types.value, rows.converted["value"])
    timestamp = timestamps(topic, left["timestamp"]) if types.has_timestamp else None
    records = normalize(rows.converted["value"], key=rows.converted.get("key"), timestamp=timestamp, headers=headers)
    partition = partitions(topic, left["partition"]) if types.has_partition else None
    rows_of, followed = (left[name] if name in left.schema.names else None for name in (ROW, FOLLOWED))
    return Converted(pipeline.destination(topic), records, partition, rows_of, followed)


def _with_header(
    headers: pa.Array | None, converter: Converter, topic: str, schema: t.DataType | None, converted: pa.Array
) -> pa.Array | None:
    """Add the header that a converter defines to each record that has a value."""
    if type(converter).record_header is Converter.record_header or converted.null_count == len(converted):
        return headers
    header = converter.record_header(topic, schema)
    if header is None:
        return headers
    present = np.asarray(converted.is_valid())
    if headers is None:
        headers = pa.nulls(len(converted), HEADERS)
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    names, values = headers.flatten().flatten()
    more = lengths + present
    order = np.empty(int(more.sum()), np.int64)
    added = np.zeros(len(order), bool)
    added[(np.cumsum(more) - 1)[present]] = True
    order[added], order[~added] = len(names), np.arange(len(names))
    name, data = header
    return list_of_headers(
        more,
        pa.concat_arrays([names.cast(pa.string()), pa.array([name])]).take(pa.array(order)),
        pa.concat_arrays([values.cast(pa.binary()), pa.array([data])]).take(pa.array(order)),
    )


def _json(texts: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), texts.cast(pa.string()))


def _with_nulls(converted: pa.Array, given: pa.Array, *, keep: bool) -> pa.Array:
    """Return converted values. With `keep`, they are null where the given values are null."""
    if not keep or given.null_count == 0:
        return converted
    if isinstance(converted, pa.ChunkedArray) or converted.offset or converted.type not in _PLAIN:
        return pc.if_else(given.is_valid(), converted, pa.scalar(None, converted.type))
    # Only the null bitmap is new. The bytes are not copied, and a value that becomes null keeps its bytes.
    valid = pc.and_(given.is_valid(), converted.is_valid()).to_numpy(zero_copy_only=False)
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(converted.type, len(converted), [bitmap, *converted.buffers()[1:]])


class _Rows:
    """Rows of one topic, on their way through the converters. `batch` has the rows that no converter has refused."""

    def __init__(self, topic: str, batch: pa.RecordBatch, errors: ErrorHandler) -> None:
        self.batch = batch
        self.converted: dict[str, pa.Array] = {}
        self._topic = topic
        self._errors = errors

    def pass_stage(
        self,
        stage: Stage,
        converter: Converter | HeaderConverter,
        name: str,
        convert: Callable[[pa.Array], pa.Array],
    ) -> None:
        batch = self.batch
        rows = self._stage_rows(stage, type(converter).__name__)
        passed, kept = self._errors.apply(rows, lambda start, stop: convert(batch[name].slice(start, stop - start)))
        if kept is not None:
            indices = pa.array(kept)
            self.batch = batch.take(indices)
            self.converted = {done: array.take(indices) for done, array in self.converted.items()}
        self.converted[name] = _joined([part.result for part in passed], name)

    def check(self, plugin: str, check: Callable[[pa.RecordBatch], None]) -> None:
        """Leave out the rows that a check of their topic, partition or timestamp refuses."""
        batch = self.batch
        rows = self._stage_rows(Stage.KAFKA_PRODUCE, plugin)
        _, kept = self._errors.apply(rows, lambda start, stop: check(batch.slice(start, stop - start)))
        if kept is not None:
            self.batch = batch.take(pa.array(kept))

    def _stage_rows(self, stage: Stage, plugin: str) -> StageRows:
        batch = self.batch
        return StageRows(
            stage,
            plugin,
            self._topic,
            batch.num_rows,
            row=lambda position: batch[ROW][position].as_py() if ROW in batch.schema.names else None,
            contents=lambda start, stop: contents_of(batch.slice(start, stop - start)),
        )


def _joined(parts: Sequence[pa.Array], name: str) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    if name == "headers":
        return pa.concat_arrays(parts) if parts else pa.nulls(0, HEADERS)
    return concat_binary(parts, name)


def converted_by(converter: Converter, topic: str, schema: t.DataType | None, values: pa.Array) -> pa.Array:
    """Return a converter's result for values. If all values are nulls without a schema, they become Kafka's nulls.

    Raises the converter's errors, and ConverterContractError (see `_one_for_each`).
    """
    if _is_nothing(schema, values):
        return pa.nulls(len(values), pa.binary())
    what = f"from_connect_data() of {type(converter).__name__}"
    return _one_for_each(values, call_plugin(what, converter.from_connect_data, topic, schema, values), converter)


def header_converted_by(
    converter: HeaderConverter, topic: str, schema: t.DataType | None, values: pa.Array
) -> pa.Array:
    """Return a header converter's result for values. Raises the same errors as `converted_by`."""
    if _is_nothing(schema, values):
        return pa.nulls(len(values), pa.binary())
    what = f"from_connect_header() of {type(converter).__name__}"
    return _one_for_each(values, call_plugin(what, converter.from_connect_header, topic, schema, values), converter)


def _is_nothing(schema: t.DataType | None, values: pa.Array) -> bool:
    """Whether all values are null and have no schema.

    Arrow gives such a column an arbitrary type, which a converter might refuse.
    """
    return (schema is None or isinstance(schema, t.NullType)) and values.null_count == len(values)


def _one_for_each(given: pa.Array, found: object, converter: Converter | HeaderConverter) -> pa.Array:
    """Return a converter's result. Raises ConverterContractError if it is not an array with one value for each row."""
    if not isinstance(found, pa.Array | pa.ChunkedArray):
        raise ConverterContractError(
            f"{type(converter).__name__} returned {kind_of(found)} for {len(given)} rows: it must return an Array of "
            "pyarrow"
        )
    if len(found) != len(given):
        raise ConverterContractError(
            f"{type(converter).__name__} returned {len(found)} values for {len(given)} rows: report this to its author"
        )
    return found


def convert_headers(topic: str, schema: t.DataType | None, headers: pa.Array, converter: HeaderConverter) -> pa.Array:
    """Convert the values of headers, given as `list<struct<key, value>>`. A null list contains no headers."""
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    names, values = headers.flatten().flatten()
    found = header_converted_by(converter, topic, schema, values)
    return list_of_headers(lengths, names, found)


def needs_raw_headers(types: ColumnTypes) -> bool:
    """Whether headers must be converted before transforms: otherwise texts that transforms add would become bytes."""
    return types.has_headers and not types.raw_headers and isinstance(types.header, t.BinaryType)


@dataclass(frozen=True, slots=True)
class RawHeaders:
    """Converts the headers of rows before their transforms, in the same way as headers of polled records.

    `topic` is used in messages.
    """

    topic: str
    converter: HeaderConverter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert the rows of a Spark partition."""
        return map(self.applied, batches)

    def applied(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with converted headers. Null headers stay null."""
        given = rows["headers"]
        found = convert_headers(self.topic, t.BinaryType(), given, self.converter)
        found = pc.if_else(given.is_valid(), found, pa.scalar(None, found.type)).cast(given.type)
        return rows.set_column(rows.schema.get_field_index("headers"), "headers", found)


def list_of_headers(lengths: np.ndarray, names: pa.Array, values: pa.Array) -> pa.Array:
    """Return a column of headers, from the number of headers of each record, and all names and converted values."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    pairs = pa.StructArray.from_arrays([names.cast(pa.string()), values.cast(pa.binary())], names=["key", "value"])
    return pa.ListArray.from_arrays(pa.array(offsets), pairs)
