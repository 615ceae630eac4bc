"""`df.write.format("fencepost")`: a Python data source that writes a DataFrame to Kafka in one transaction.

Spark finds it by the module `pyspark_fencepost`, which it imports in each session that looks for a Python data source. So
this module imports little. docs/decisions/0032-format-fencepost-is-for-batches.md tells how it stays exactly-once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from fencepost.spark.data_source_writer import FencepostWriter

_ONLY_WRITES: Final = 'format("fencepost") only writes: read topics with Spark\'s format("kafka")'


class FencepostDataSource(DataSource):
    """The data source. Its options are those of `write_kafka`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options: dict[str, Any] = dict(options)

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "fencepost"

    def writer(self, schema: StructType, overwrite: bool) -> FencepostWriter:
        """Begin a transaction for a DataFrame. Raises ConfigError for what cannot be written."""
        from fencepost.spark.data_source_writer import begin_write  # noqa: PLC0415 - see above

        return begin_write(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - pyspark's name
        """Refuse a stream, which a data source cannot write exactly once."""
        del schema, overwrite
        _refuse(
            'format("fencepost") writes DataFrames whose end is known, and not streams, because Spark tells a data source '
            "too little of a micro-batch. Use df.writeStream.foreachBatch(exactly_once(...)) of fencepost.spark"
        )

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
