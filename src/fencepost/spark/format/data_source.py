"""`format("fencepost")`: a Python data source that writes a DataFrame, or a micro-batch, to Kafka in one transaction.

Spark finds it through the module `pyspark_fencepost`, which it imports in each session that looks for a Python data
source. So this module imports little. docs/decisions/0032-format-fencepost-has-a-ledger.md explains why it stays
exactly-once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader

from fencepost.spark.format.short_errors import with_short_errors

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from fencepost.spark.format.stream import FencepostStreamWriter
    from fencepost.spark.format.writer import FencepostWriter

_ONLY_WRITES: Final = 'format("fencepost") only writes: read topics with Spark\'s format("kafka")'


class FencepostDataSource(DataSource):
    """The data source. It takes the options of `write_kafka`, and for a stream of `exactly_once`."""

    def __init__(self, options: Mapping[str, Any], *, ends: bool = False) -> None:
        """A data source that `ends` micro-batches does not begin any."""
        self.options: dict[str, Any] = dict(options)
        self._ends = ends

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark makes one for each micro-batch, and passes another one to the process that ends micro-batches.
        return partial(FencepostDataSource, ends=True), (self.options,)

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "fencepost"

    @with_short_errors
    def writer(self, schema: StructType, overwrite: bool) -> FencepostWriter:
        """Begin a transaction for a DataFrame. Raises ConfigError for rows or options that cannot be written."""
        from fencepost.spark.format.writer import begin_write  # noqa: PLC0415 - see above

        return begin_write(self.options, schema, overwrite=overwrite)

    @with_short_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> FencepostStreamWriter:  # noqa: N802 - pyspark's name
        """Begin the transaction of a micro-batch, or return the writer that ends it. Raises as `begin_batch` does.

        With `overwrite` Spark's output mode is complete: each batch has all rows, and is added, as in Spark's own sink.
        """
        from fencepost.spark.format.stream import begin_batch, ending_writer  # noqa: PLC0415 - see above

        del overwrite
        return ending_writer(self.options) if self._ends else begin_batch(self.options, schema)

    def schema(self) -> StructType:
        """Refuse to read."""
        _refuse(_ONLY_WRITES)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Refuse to read."""
        del schema
        _refuse(_ONLY_WRITES)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's name
        """Refuse to read."""
        del schema
        _refuse(_ONLY_WRITES)


def _refuse(message: str) -> NoReturn:
    from fencepost.api.errors import ConfigError  # noqa: PLC0415 - see above

    raise ConfigError(message)
