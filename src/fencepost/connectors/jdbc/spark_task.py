"""The task of JdbcSource for databases other than PostgreSQL, which Spark's JDBC reads.

Each poll is at least one Spark job. The database's driver must be on Spark's class path (`spark.jars`). The modes are
bulk and incrementing. Column types follow Spark's dialect for the database.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.errors import DataError, RetriableError
from fencepost.api.record import PollResult, SourceBatch
from fencepost.api.source import Config, SourceTask
from fencepost.api.spark_names import backticked
from fencepost.connectors.jdbc.drivers import driver_class
from fencepost.connectors.jdbc.offsets import (
    QUERY_PARTITION,
    ColumnOffset,
    bulk_offset,
    bulk_partition,
    bulk_time,
    named_partition,
    whole_if_small,
)
from fencepost.connectors.jdbc.properties import (
    INCREMENTING_COLUMN,
    PASSWORD,
    POLL_INTERVAL,
    URL,
    USER,
    JdbcConfig,
    Mode,
    ended,
    table_name,
)
from fencepost.connectors.jdbc.rounds import Rounds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FETCHED_ROWS: Final = "10000"


class SparkTable:
    """A table, or the query, and the position up to which it was read."""

    whole: Final = True
    """Each poll returns all new rows."""

    def __init__(self, name: str | None, config: JdbcConfig) -> None:
        self._name = name
        self._config = config
        self.title = "the query" if name is None else f"the table {name}"
        self._topic = config.topic("" if name is None else table_name(name))
        of_rows = QUERY_PARTITION if name is None else named_partition(name)
        self.partition = bulk_partition(of_rows) if config.mode is Mode.BULK else of_rows
        self._last_id: Decimal | None = None
        self._last_read: int | None = None

    def begin(self, offset: dict[str, Any] | None) -> None:
        """Continue at a committed offset. Raises DataError."""
        if self._config.mode is Mode.BULK:
            self._last_read = bulk_time(offset)
        elif offset is not None:
            self._last_id = ColumnOffset.of(offset).incrementing

    def poll(self, session: SparkSession) -> SourceBatch | None:
        """Return the new rows. Raises Spark's errors."""
        if self._config.mode is Mode.BULK:
            return self._all(session)
        return self._new(session)

    def _all(self, session: SparkSession) -> SourceBatch | None:
        now = time.time_ns() // 1_000_000
        if (
            self._last_read is not None
            and self._last_read <= now < self._last_read + self._config.values[POLL_INTERVAL]
        ):
            return None
        batch = self._batch(self._frame(session), bulk_offset(now))
        self._last_read = now
        return batch

    def _new(self, session: SparkSession) -> SourceBatch | None:
        column = F.col(backticked(self._config.incrementing_column))
        rows = self._frame(session)
        kind = self._kind_of_ids(rows.select(column).schema[0])
        rows = rows.where(
            column.isNotNull() if self._last_id is None else column > F.lit(whole_if_small(self._last_id))
        )
        last = _highest(rows, column)
        if last is None:
            return None
        if isinstance(kind, t.DecimalType) and kind.scale:
            self._check_exact(rows, column, last)
        # A row with a higher id that was committed meanwhile is left to the next poll.
        rows = rows.where(column <= F.lit(whole_if_small(last))).sortWithinPartitions(column)
        batch = self._batch(rows, ColumnOffset(last).as_offset())
        self._last_id = last
        return batch

    def _kind_of_ids(self, field: t.StructField) -> t.DataType:
        if not isinstance(field.dataType, t.IntegralType | t.DecimalType):
            raise DataError(
                f'The column "{field.name}" ({field.dataType.simpleString()}) of {self.title} has no exact numbers, as '
                f"integers and decimals are: correct {INCREMENTING_COLUMN}, or cast it in a query"
            )
        return field.dataType

    def _check_exact(self, rows: DataFrame, column: Column, last: Decimal) -> None:
        """Raise DataError if the database has no row with the highest id: Spark has rounded the id."""
        if rows.where(column == F.lit(last)).isEmpty() and _highest(rows, column) == last:
            raise DataError(
                f"The highest id of {self.title} is {last:f} as Spark reads it, and the database has no such id: Spark rounds "
                f"it. Name a column whose numbers have no more digits than its type says, with {INCREMENTING_COLUMN}, or "
                "cast it in a query"
            )

    def _batch(self, rows: DataFrame, offset: Mapping[str, int | str]) -> SourceBatch:
        value = F.struct(*(F.col(backticked(name)) for name in rows.columns))
        return SourceBatch(
            dataframe=rows.select(value.alias("value")), offsets=[(self.partition, offset)], topic=self._topic
        )

    def _frame(self, session: SparkSession) -> DataFrame:
        values = self._config.values
        url = str(values[URL])
        options = {"url": url, "driver": driver_class(url), "fetchsize": _FETCHED_ROWS}
        # The query is passed as a table, because Spark removes some characters from the end of its option `query`.
        options["dbtable"] = f"({ended(self._config.query)}) fencepost_query" if self._name is None else self._name
        options |= {name: values[key] for name, key in (("user", USER), ("password", PASSWORD)) if values[key]}
        return session.read.format("jdbc").options(**options).load()


class SparkJdbcTask(SourceTask):
    """Returns new rows of its tables, or of the query, as DataFrames."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def start(self, config: Config) -> None:
        """Start after the last committed rows."""
        parsed = JdbcConfig.parse(config)
        names: list[str | None] = [None] if parsed.query else [*parsed.whitelist]
        self._tables = [SparkTable(name, parsed) for name in names]
        offsets = self.context.offset_reader.offsets([table.partition for table in self._tables])
        for table, offset in zip(self._tables, offsets, strict=True):
            table.begin(offset)
        self._rounds: Rounds[SparkTable] = Rounds(parsed.values[POLL_INTERVAL] / 1000)

    def poll(self) -> PollResult:
        """Return the next rows of a table, or None if there are no rows or no poll is due within a second."""
        return self._rounds.first_result(lambda: self._tables, self._ask, self._stopping)

    def _ask(self, table: SparkTable) -> SourceBatch | None:
        session = self.context.spark_session()
        try:
            return table.poll(session)
        except DataError:
            raise
        except PySparkException as error:
            raise RetriableError(f"Reading {table.title} by Spark's JDBC failed: {_first_line(error)}") from error

    def stop(self) -> None:
        """Wake a blocked poll."""
        self._stopping.set()

    def at_end(self) -> bool:
        """Return whether every table was read to its end at least once."""
        return self._rounds.exhausted


def _highest(rows: DataFrame, column: Column) -> Decimal | None:
    found = rows.agg(F.max(column)).first()
    return None if found is None or found[0] is None else Decimal(found[0])


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
