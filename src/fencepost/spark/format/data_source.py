"""`format("fencepost")`: a Python data source that writes a DataFrame, or a micro-batch, to Kafka in one transaction.

Spark finds it through the module `pyspark_fencepost`. Each session that looks for a Python data source imports that
module, so this module imports little. docs/decisions/0032-format-fencepost-has-a-ledger.md explains why the data source
is exactly-once.
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
    """The data source. It takes the options of `write_kafka`, or of `exactly_once` for a stream."""

    def __init__(self, options: Mapping[str, Any], *, ends: bool = False) -> None:
        """With `ends`, the data source only ends micro-batches, and begins none."""
        self.options: dict[str, Any] = dict(options)
        self._ends = ends

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark makes a data source for each micro-batch, and passes a pickled copy to the process that ends
        # micro-batches.
        return partial(FencepostDataSource, ends=True), (self.options,)

    @classmethod
    def name(cls) -> str:
        """The name to pass to `format`."""
        return "fencepost"

    @with_short_errors
    def writer(self, schema: StructType, overwrite: bool) -> FencepostWriter:
        """Begin a transaction for a DataFrame. Raises ConfigError for rows or options that cannot be written."""
        from fencepost.spark.format.writer import begin_write  # noqa: PLC0415 - see above

        return begin_write(self.options, schema, overwrite=overwrite)

    @with_short_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> FencepostStreamWriter:  # noqa: N802 - pyspark's name
        """Begin the transaction of a micro-batch, or return the writer that ends it.

        Raises the errors of `begin_batch`.

        `overwrite` means that Spark's output mode is complete. Each batch then has all rows, which are added, as in
        Spark's sink.
        """
        from fencepost.spark.format.stream import begin_batch, ending_writer  # noqa: PLC0415 - see above

        del overwrite
        return ending_writer(self.options) if self._ends else begin_batch(self.options, schema)

    def schema(self) -> StructType:
        """Raise an error: the data source cannot be read."""
        _refuse(_ONLY_WRITES)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raise an error: the data source cannot be read."""
        del schema
        _refuse(_ONLY_WRITES)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's name
        """Raise an error: the data source cannot be read."""
        del schema
        _refuse(_ONLY_WRITES)


def _refuse(message: str) -> NoReturn:
    from fencepost.api.errors import ConfigError  # noqa: PLC0415 - see above

    raise ConfigError(message)
