"""What a source task returns from `poll`, and what it is told about it afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.api.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

SourcePartition = Mapping[str, Any]
"""Names a part of the source, for example `{"filename": "/var/log/app.log"}`."""

SourceOffset = Mapping[str, Any]
"""A position in a source partition, for example `{"position": 4096}`. JSON-compatible."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceRecord:
    """One record on its way to Kafka.

    `value` and `key` are plain Python values that fit `value_schema` and `key_schema`, which are Spark types or their
    DDL strings; without a schema they are schemaless, as in Connect. `partition` fixes the Kafka partition (else the
    key's hash decides, else records spread). `timestamp` is in milliseconds since the epoch (else the time of
    sending). `headers` are `(name, value)` pairs.
    """

    source_partition: SourcePartition
    source_offset: SourceOffset
    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    value_schema: DataType | str | None = None
    key_schema: DataType | str | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, Any]] = ()


class ArrowReader(Protocol):
    """Reads a batch's splits where they are needed: on Spark's executors, or in the worker.

    It is pickled and sent there, so it holds plain data only. `schema` is the type of the rows as a Spark DDL string;
    a column named `value` is the record's value, and `key`, `topic`, `partition`, `timestamp` and `headers` have the
    meaning that they have in a SourceBatch's DataFrame.
    """

    @property
    def schema(self) -> str:
        """The rows' columns as a Spark DDL string, for example `"value STRING"`."""

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one split, in order. Raises DataError for rows that do not fit."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Many records at once, read lazily on Spark's executors, with the offsets that they lead up to.

    Give either `dataframe`, or `reader` with `splits`: the latter is read and written in one step where no transform
    needs Spark's optimizer. The columns are those of Spark's own Kafka sink: `value` (required, of any type), `key`,
    `topic` (else the connector's `topic` property), `partition`, `timestamp` (a TIMESTAMP or BIGINT milliseconds)
    and `headers` (an ARRAY of STRUCT<key: STRING, value: any>). Splits are read in the order given; rows of one key
    and rows of one Kafka partition keep their order.

    `offsets` are `(source_partition, source_offset)` pairs: where the source stands once the whole batch is committed.
    `bytes` is about how much a reader's splits will read: a small batch is read in the worker, without a Spark job.
    None means unknown, and thus large.
    """

    dataframe: DataFrame | None = None
    offsets: Sequence[tuple[SourcePartition, SourceOffset]] = ()
    reader: ArrowReader | None = None
    splits: Sequence[Any] = field(default=())
    bytes: int | None = None

    def __post_init__(self) -> None:
        if (self.dataframe is None) == (self.reader is None):
            raise DataError("A SourceBatch takes either dataframe= or reader= with splits=: give exactly one of them")


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a record went. `offset` is -1 where the broker did not say; `timestamp` is in milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int


PollResult = Sequence[SourceRecord] | SourceBatch | None
"""What `SourceTask.poll` may return. None and an empty sequence mean that there is nothing new."""
