"""The return values of a source task's `poll`, and the metadata of their delivery."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.api.errors import DataError
from fencepost.api.own_pipeline import OwnPipeline
from fencepost.api.plugin_calls import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

SourcePartition = Mapping[str, Any]
"""Names a part of the source, for example `{"filename": "/var/log/app.log"}`."""

SourceOffset = Mapping[str, Any]
"""A position in a source partition, for example `{"position": 4096}`. JSON-compatible."""

Offsets = Sequence[tuple[SourcePartition | None, SourceOffset | None]]
"""The positions of source partitions. None removes the offset of a source partition."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceRecord:
    """One record for Kafka.

    If `topic` is None, the topic in the connector's property `topic` is used. `value` and `key` are plain Python values
    that fit `value_schema` and `key_schema`, which are Spark types or their DDL strings. Without a schema they are
    schemaless, as in Connect. `partition` sets the Kafka partition; without it, the hash of the key decides, and
    records without a key are distributed. `timestamp` is in milliseconds since the epoch, not before 1970; without it,
    and for -1 as in Connect, it is the time of sending. `headers` are `(name, value)` pairs.
    """

    source_partition: SourcePartition
    source_offset: SourceOffset
    topic: str | None = None
    value: Any = None
    key: Any = None
    partition: int | None = None
    value_schema: DataType | str | None = None
    key_schema: DataType | str | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, Any]] = ()

    def __post_init__(self) -> None:
        """Raise DataError for an argument of a wrong type, at the place where the source creates the record."""
        _check_mapping("SourceRecord", "source_partition", self.source_partition, '{"filename": "/var/log/app.log"}')
        _check_mapping("SourceRecord", "source_offset", self.source_offset, '{"position": 4096}')
        if self.topic is not None and not isinstance(self.topic, str):
            raise _wrong("SourceRecord", "topic", self.topic, "a str")
        if self.headers:
            _check_headers(self.headers)


def without_topic(record: SourceRecord) -> DataError:
    """Return the error for a record that names no topic, if the connector has no property `topic`."""
    return DataError(
        f"The record of the source partition {dict(record.source_partition)} at {dict(record.source_offset)} has no topic: "
        "give SourceRecord(topic=...) one, or the connector the property 'topic', which is for records without one"
    )


class ArrowReader(Protocol):
    """Reads a batch's splits at the place where they are processed: on Spark's executors, or in the worker.

    A reader is pickled and sent to that place, so it must contain only plain data. `schema` is the type of the rows as
    a Spark DDL string. A column named `value` is the record's value, and `key`, `topic`, `partition`, `timestamp` and
    `headers` have the same meaning as in a SourceBatch's DataFrame. Columns, and fields of structs, are found by their
    names, in any order. Columns and fields that are not in the schema are not written; a warning says so once. Values
    whose type differs from the schema's are refused, unless a cast keeps all of them.

    If a reader's rows name their topics, the reader may list all of these in `topics`: a converter with a schema
    registry needs them in advance, and without the list the rows are read twice. A reader may have `place(split, row)`,
    which returns the place of a row, given the row's number from 0, in the form of `RefusedRow.place`. The error of a
    row that fails the task then contains the place.
    """

    @property
    def schema(self) -> str:
        """The rows' columns as a Spark DDL string, for example `"value STRING"`."""

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one split, in order. Raises DataError for rows that do not fit the schema."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A piece of a split that is not a row of the reader's schema.

    `raw` are its bytes as they are in the source; `reason` is the error. `place` describes its position, by names such
    as `file`, `position` and `line`. They become headers of the dead letter: `__connect.errors.<name>`.

    A SourceRecord whose value is a RefusedRow stands for such a piece in a polled batch. It is refused, or skipped with
    `errors.tolerance=all`. Its source offset is the position after the piece.
    """

    raw: bytes
    reason: str
    place: Mapping[str, str] = field(default_factory=dict)


class TolerantReader(ArrowReader, Protocol):
    """An ArrowReader that can continue after a piece of a split that is not a row.

    With `errors.tolerance=all`, `read_tolerant` is called instead of `read`.
    """

    def read_tolerant(self, split: Any) -> Iterator[pa.RecordBatch | Sequence[RefusedRow]]:
        """Yield the rows of one split, in order, and the pieces that are not rows.

        Raises DataError for errors that cannot be skipped. Every byte of the split must be in a row or in a refused
        row.
        """


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Many records at once, which Spark's executors read lazily, with the source offsets after them.

    Create a batch with `of_dataframe`; with `of_reader`, whose splits are read and written in one step if no transform
    needs Spark's optimizer; or with `of_columns` if the records are already the bytes for Kafka. The columns are the
    same as in Spark's own Kafka sink: `value` (required, of any type), `key`, `topic`, `partition`, `timestamp` (a
    TIMESTAMP or BIGINT milliseconds) and `headers` (an ARRAY of STRUCT<key: STRING, value: any>). Rows without a topic
    go to the batch's `topic`, or else to the topic in the connector's property. A null `key` or `value` is null in
    Kafka, so a null value is a tombstone, whatever its type. Splits are read in the order given. Rows with the same key
    keep their order, and rows for the same Kafka partition do, too.

    `offsets` are the source's positions after the whole batch is committed. A source partition may also be None.
    `bytes` estimates how many bytes a reader's splits will read. The worker reads a small batch itself, without a Spark
    job, and also the first larger batches, until Spark has started. None means unknown: such a batch is read on
    executors. `topics` are topics that rows of this batch or of later batches will name. The worker creates missing
    topics together, before the transaction that begins with the batch. Other topics are created one by one, with their
    first rows.
    """

    dataframe: DataFrame | None = None
    offsets: Offsets = ()
    reader: ArrowReader | None = None
    splits: Sequence[Any] = field(default=())
    bytes: int | None = None
    topic: str | None = None
    topics: Collection[str] = ()
    columns: pa.RecordBatch | None = None
    pipeline: OwnPipeline | None = None
    boundaries: Sequence[tuple[int, Offsets]] = ()

    @classmethod
    def of_dataframe(
        cls,
        dataframe: DataFrame,
        offsets: Offsets = (),
        *,
        topic: str | None = None,
        topics: Collection[str] = (),
    ) -> SourceBatch:
        """Return a batch of the rows of a Spark DataFrame. Raises DataError for an argument of a wrong type."""
        return cls(dataframe=dataframe, offsets=offsets, topic=topic, topics=topics)

    @classmethod
    def of_reader(
        cls,
        reader: ArrowReader,
        splits: Sequence[Any],
        offsets: Offsets = (),
        *,
        bytes: int | None = None,  # noqa: A002 - the field has this name
        topic: str | None = None,
        topics: Collection[str] = (),
    ) -> SourceBatch:
        """Return a batch of the rows that a reader reads from splits.

        Raises DataError for an argument of a wrong type.
        """
        return cls(reader=reader, splits=splits, offsets=offsets, bytes=bytes, topic=topic, topics=topics)

    @classmethod
    def of_columns(
        cls,
        columns: pa.RecordBatch,
        offsets: Offsets = (),
        *,
        topic: str | None = None,
        pipeline: OwnPipeline | None = None,
        boundaries: Sequence[tuple[int, Offsets]] = (),
    ) -> SourceBatch:
        """Return a batch of records that are in memory, in the form of the bytes that Kafka gets.

        `columns` has `value` (BINARY) and may have `key` (BINARY), `topic` (STRING), `partition` (INT32), `timestamp`
        (INT64, milliseconds) and `headers` (LIST of STRUCT<key: STRING, value: BINARY>). The connector's converters are
        not used. Its transforms must be ones that need no key, no value and no value of a header: RegexRouter,
        TimestampRouter, DropHeaders, Filter. Without transforms, Spark is not started. `pipeline` says which records
        the connector itself dropped and refused before.

        `boundaries` are ends of transactions within the batch, for `transaction.boundary=connector`: for each end, in
        ascending order, a pair of the number of rows before the end and the `offsets` there. A transaction is committed
        before the rows after its end are written. Raises DataError for an argument of a wrong type, for boundaries that
        are not within the batch, and for boundaries together with a `pipeline`, which does not say on which side of a
        boundary a record was refused.
        """
        return cls(columns=columns, offsets=offsets, topic=topic, pipeline=pipeline, boundaries=boundaries)

    def __post_init__(self) -> None:
        """Raise DataError for arguments that contradict each other, or have a wrong type."""
        self._check_rows()
        if self.topic is not None and not isinstance(self.topic, str):
            raise _wrong("SourceBatch", "topic", self.topic, "a str")
        if isinstance(self.topics, str) or not isinstance(self.topics, Collection):
            raise _wrong("SourceBatch", "topics", self.topics, "a list of topics")
        _check_offsets(self.offsets)
        self._check_boundaries()

    def _check_rows(self) -> None:
        if [self.dataframe, self.reader, self.columns].count(None) != 2:
            raise DataError(
                "A SourceBatch takes one of dataframe=, reader= with splits=, and columns=: make it with "
                "SourceBatch.of_dataframe(), SourceBatch.of_reader() or SourceBatch.of_columns()"
            )
        if self.columns is not None and not hasattr(self.columns, "num_rows"):
            raise _wrong("SourceBatch", "columns", self.columns, "a RecordBatch of pyarrow")
        if self.dataframe is not None and not hasattr(self.dataframe, "mapInArrow"):
            raise _wrong("SourceBatch", "dataframe", self.dataframe, "a DataFrame of Spark")
        if self.reader is not None and not hasattr(self.reader, "read"):
            raise _wrong("SourceBatch", "reader", self.reader, "an ArrowReader")

    def _check_boundaries(self) -> None:
        before = 0
        if not isinstance(self.boundaries, Sequence) or any(
            not isinstance(boundary, tuple) or len(boundary) != 2 for boundary in self.boundaries
        ):
            raise _wrong(
                "SourceBatch", "boundaries", self.boundaries, "a list of pairs of a number of rows and offsets"
            )
        if self.boundaries and self.pipeline is not None:
            raise DataError(
                "SourceBatch.of_columns() was given both pipeline= and boundaries=: return the rows up to each boundary "
                "as a batch with a pipeline of its own, and call commit_transaction() with it"
            )
        for rows, offsets in self.boundaries:
            if self.columns is None or type(rows) is not int or not before < rows < self.columns.num_rows:
                raise DataError(
                    f"SourceBatch(boundaries=...) has a boundary after {rows} rows: it takes boundaries between rows of "
                    "columns=, in ascending order. For one after the last row call commit_transaction()"
                )
            _check_offsets(offsets)
            before = rows


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """The place of a written record. `offset` is -1 if the broker did not return it. `timestamp` is in milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int


PollResult = Iterable[SourceRecord] | SourceBatch | None
"""The allowed results of `SourceTask.poll`. None and an empty result mean that there are no new records.

If the result is a generator, it runs to its end before its records are written.
"""


def _check_mapping(of: str, argument: str, value: object, example: str) -> None:
    # There are many records, and isinstance with Mapping takes longer than comparing types.
    if type(value) is not dict and not isinstance(value, Mapping):
        raise _wrong(of, argument, value, f"a dict, such as {example}")


def _check_offsets(offsets: object) -> None:
    pairs = "a list of (source_partition, source_offset) pairs"
    if isinstance(offsets, str | Mapping) or not isinstance(offsets, Sequence):
        raise _wrong("SourceBatch", "offsets", offsets, pairs)
    for pair in offsets:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DataError(f"SourceBatch(offsets=...) has an item that is {kind_of(pair)}: it takes {pairs}")
        for part in pair:
            if part is not None:
                _check_mapping("SourceBatch", "offsets", part, '[({"filename": "/data/a.csv"}, {"position": 4096})]')


def _check_headers(headers: object) -> None:
    expected = "a list of (name, value) pairs, with names that are texts"
    if isinstance(headers, str | Mapping) or not isinstance(headers, Sequence):
        raise _wrong("SourceRecord", "headers", headers, expected)
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise DataError(f"SourceRecord(headers=...) has an item that is not such a pair: it takes {expected}")


def _wrong(of: str, argument: str, value: object, expected: str) -> DataError:
    return DataError(f"{of}({argument}=...) was given {kind_of(value)}: it takes {expected}")
