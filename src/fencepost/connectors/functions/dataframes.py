"""Runs a PySpark `DataSource` that has a stream reader, unchanged, as a source.

    class Rows(DataSource): ...                 # schema(), and streamReader() or simpleStreamReader()

    RowsConnector = pyspark_source(Rows)        # connector.class=my_module.RowsConnector

Each poll asks the stream reader for its latest offset. The partitions between the previous offset and the latest one
are read on Spark's executors, and written in one transaction with the new offset. A SimpleDataSourceStreamReader reads
in the worker. The source partition is `{"source": name of the data source}`, and its offset is `{"offset": the reader's
offset as JSON}`.

The API: https://spark.apache.org/docs/latest/api/python/reference/pyspark.sql/datasource.html.
"""

from __future__ import annotations

import inspect
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceStreamReader, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.ddl import parse_columns
from fencepost.api.errors import ConfigError, DataError, describe_error
from fencepost.api.fitted_columns import check_columns
from fencepost.api.plugin_calls import call_plugin, iterate_plugin
from fencepost.api.record import PollResult, SourceBatch
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.config.validators import at_least
from fencepost.connectors.rows.record_mapping import TOPIC, RecordColumns, define_record_columns, validate_columns
from fencepost.connectors.rows.row_types import MisfitError

_log: Final = logging.getLogger(__name__)
INTERVAL: Final = "poll.interval.ms"

_OFFSET: Final = "offset"
_ARROW_ROWS: Final = 10_000
# The estimated size of a row. By this estimate, the worker decides whether to write rows without a Spark job.
_ROW_BYTES: Final = 200

_T, _I = ConfigDef.Type, ConfigDef.Importance
_CONFIG: Final = (
    define_record_columns(ConfigDef(others_allowed=True))
    .define(
        INTERVAL, _T.LONG, 1000, _I.LOW,
        "How long to wait, in milliseconds, before asking again for the latest offset when there is nothing new.",
        validator=at_least(0),
    )
)  # fmt: skip


def pyspark_source(data_source: type[DataSource]) -> type[SourceConnector]:
    """Return a connector that runs a data source.

    Assign it to a name in the module; `connector.class` contains that name.

    The value of a record is the row as a struct. The connector has the properties that `define_record_columns`
    defines, and `poll.interval.ms`. It passes all properties to the data source as options. It has one task: Spark
    spreads the work.
    """
    attributes = {
        "__module__": data_source.__module__,
        "__doc__": data_source.__doc__,
        "data_source": data_source,
        "made_of": data_source,
    }
    return type(f"{data_source.__name__}Connector", (PySparkSourceConnector,), attributes)


class PySparkSourceConnector(SourceConnector):
    """The base class of the connectors that `pyspark_source` creates."""

    data_source: ClassVar[type[DataSource]]

    def config(self) -> ConfigDef:
        """Return the definitions of the connector's own properties; the others are options of the data source."""
        return _CONFIG

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check each property, and the properties that depend on others."""
        return validate_columns(super().validate(config))

    def known_schemas(self, config: Config) -> dict[str, str]:
        """Return the DDL of the topic's records; empty if a column names the topic, or if the columns are unknown."""
        parsed = _CONFIG.parse(config)
        record = RecordColumns.from_values(parsed)
        if record.topic:
            return {}
        try:
            _, columns = _made(self.data_source, config)
            return {parsed[TOPIC]: record.ddl(columns)}
        except Exception as error:  # noqa: BLE001 - the data source's own code
            _log.warning("The columns could not be read for the schema registry: %s", describe_error(error))
            return {}

    def task_class(self) -> type[SourceTask]:
        """Return a task that runs the data source."""
        attributes = {"__module__": __name__, "data_source": self.data_source, "made_of": self.data_source}
        return type(f"{self.data_source.__name__}Task", (PySparkSourceTask,), attributes)

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:
        """Return SUPPORTED: a stream reader reads between two offsets."""
        del config
        return ExactlyOnceSupport.SUPPORTED


def _made(data_source: type[DataSource], config: Config) -> tuple[DataSource, StructType]:
    """Create the data source, with the connector's configuration as its options; return it with its columns.

    Raises ConfigError for columns that are not allowed.
    """
    name = data_source.__qualname__
    made = call_plugin(f"The constructor of {name}", data_source, CaseInsensitiveDict(config))
    schema = call_plugin(f"schema() of {name}", made.schema)
    columns = parse_columns(schema) if isinstance(schema, str) else schema
    check_columns(columns, f"The schema of the data source {name}")
    return made, columns


class PySparkSourceTask(SourceTask):
    """Reads the rows between one offset and the next."""

    data_source: ClassVar[type[DataSource]]

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._ended = False
        # The reader's class is one of two PySpark classes, which have no common base class.
        self._reader: Any = None

    def start(self, config: Config) -> None:
        """Start at the committed offset, or at the reader's initial offset.

        Raises ConfigError if there is no stream reader.
        """
        parsed = _CONFIG.parse(config)
        self._interval_s = parsed[INTERVAL] / 1000
        self._record = RecordColumns.from_values(parsed)
        self._source, self._columns = _made(self.data_source, config)
        self._record.check(self._columns)
        self._reader = _stream_reader(self._source, self._columns)
        self._partition = {"source": self._source.name()}
        committed = self.context.offset_reader.offset(self._partition)
        self._offset = _copy(self._ask("initialOffset")) if committed is None else json.loads(committed[_OFFSET])

    def poll(self) -> PollResult:
        """Return the rows up to the latest offset, or None after the poll interval if there are no new rows."""
        batch = self._read_simple() if isinstance(self._reader, SimpleDataSourceStreamReader) else self._plan()
        self._ended = batch is None
        if batch is None:
            self._stopping.wait(self._interval_s)
        return batch

    def _plan(self) -> SourceBatch | None:
        start, end = self._offset, _copy(self._latest_offset())
        if end == start:
            return None
        partitions = list(self._ask("partitions", start, end))
        reader = PartitionReader(self._source, self._reader, self._columns, self._record)
        # The offset may change although there are no rows.
        return self._batch(end, reader, partitions or [None], size=None if partitions else 0)

    def _read_simple(self) -> SourceBatch | None:
        rows, end = self._ask("read", self._offset)
        read = list(iterate_plugin(f"read() of {type(self._reader).__qualname__}", rows))
        end = _copy(end)
        if end == self._offset:
            if read:
                raise DataError(
                    f"The data source {self._source.name()} read {len(read)} rows, but its offset did not advance from "
                    f"{json.dumps(end)}: return the offset after the rows"
                )
            return None
        reader = PartitionReader(self._source, None, self._columns, self._record)
        return self._batch(end, reader, [read], size=len(read) * _ROW_BYTES)

    def _batch(
        self, end: Mapping[str, Any], reader: PartitionReader, splits: Sequence[Any], size: int | None
    ) -> SourceBatch:
        self._offset = end
        offsets = [(self._partition, {_OFFSET: json.dumps(end)})]
        return SourceBatch(reader=reader, splits=splits, offsets=offsets, bytes=size)

    def commit(self) -> None:
        """Call the reader's `commit` with the committed offset."""
        if self._reader is not None:
            self._ask("commit", self._offset)

    def at_end(self) -> bool:
        """Return whether the last poll found nothing new."""
        return self._ended

    def stop(self) -> None:
        """Wake a poll that waits, and stop the reader."""
        self._stopping.set()
        if isinstance(self._reader, DataSourceStreamReader):
            self._ask("stop")

    def _latest_offset(self) -> Any:
        """Return the latest offset of the reader. Before Spark 4.2 the reader's method had no arguments."""
        if not inspect.signature(self._reader.latestOffset).parameters:
            return self._ask("latestOffset")
        return self._ask("latestOffset", self._offset, self._ask("getDefaultReadLimit"))

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Call the reader as a plugin, so that an error's traceback begins in the reader's code.

        The arguments are copied, because the reader may change its offsets in place.
        """
        what = f"{method}() of {type(self._reader).__qualname__}"
        given = [_copy(argument) if isinstance(argument, Mapping) else argument for argument in arguments]
        return call_plugin(what, getattr(self._reader, method), *given)


@dataclass(frozen=True)
class PartitionReader:
    """An ArrowReader of a stream reader's partitions. Without `reader`, the splits are lists of rows already read."""

    source: DataSource
    reader: DataSourceStreamReader | None
    columns: StructType
    record: RecordColumns

    @property
    def schema(self) -> str:
        """A struct `value`, and the columns that `record` defines."""
        return self.record.ddl(self.columns)

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Raises DataError for a row without a topic or a timestamp."""
        if split is None:
            return
        rows = split if self.reader is None else self.reader.read(split)
        for batch in records_to_arrow_batches(iter(rows), _ARROW_ROWS, self.columns, self.source):
            try:
                yield self.record.records(self.columns, [batch.column(name) for name in self.columns.names])
            except MisfitError as error:
                raise DataError(f"A row of the data source {self.source.name()} is not a record: {error}") from None


def _copy(offset: Any) -> Any:
    """Return a copy of an offset as Spark stores it, in JSON. The reader may change the original in place."""
    return json.loads(json.dumps(offset))


def _stream_reader(source: DataSource, columns: StructType) -> DataSourceStreamReader | SimpleDataSourceStreamReader:
    reader: DataSourceStreamReader | SimpleDataSourceStreamReader
    for method in ("streamReader", "simpleStreamReader"):
        try:
            reader = call_plugin(f"{method}() of {type(source).__qualname__}", getattr(source, method), columns)
        except PySparkNotImplementedError:
            continue
        return reader
    raise ConfigError(
        f"The data source {source.name()} has no stream reader: define streamReader() or simpleStreamReader(), because a "
        "batch reader has no offsets to resume from"
    )
