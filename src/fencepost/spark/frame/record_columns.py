"""Selects or builds the columns of Kafka records (key, value, topic ...) from the columns of a DataFrame.

This works on the DataFrame itself, and on Arrow batches of its rows.

A DataFrame with a column `value` has the columns of Spark's own Kafka sink, and its other columns are ignored. Without
such a column, and with `key.columns`, the value of a record is a struct of all columns.
https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html#writing-data-to-kafka
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.errors import ConfigError
from fencepost.api.spark_names import backticked
from fencepost.engine.column_types import COLUMNS
from fencepost.spark.config.sink_config import SinkConfig


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Which columns make records.

    The `selected` columns are used unchanged. If `selected` is None, the value is a struct of all columns, and the key
    consists of the columns `keys`.
    """

    selected: tuple[str, ...] | None
    keys: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[str], config: SinkConfig) -> Self:
        """Find the columns of records in a DataFrame. Raises ConfigError for missing columns.

        Also raises ConfigError for a column such as `Key`: it would be ignored, although Spark's own functions treat it
        as `key`.
        """
        if not config.key_columns and "value" in names:
            for name in names:
                if name not in COLUMNS and name.lower() in COLUMNS:
                    raise ConfigError(
                        f"The column {name!r} of the DataFrame would be ignored, because the columns of records have names "
                        f"in lower case: rename it to {name.lower()!r}, or drop it"
                    )
            return cls(tuple(name for name in COLUMNS if name in names), ())
        if "value.converter" not in config.properties:
            raise ConfigError(
                f"The DataFrame has the columns {', '.join(names)}: name one of them 'value', or set value.converter, "
                "for example to JsonConverter, which writes each row as a whole",
                name="value.converter",
            )
        for name in config.key_columns:
            if name not in names:
                raise ConfigError(
                    f"key.columns names {name!r}, which is not a column; there are: {', '.join(names)}",
                    name="key.columns",
                )
        return cls(None, config.key_columns)

    def frame(self, frame: DataFrame) -> DataFrame:
        """Return the frame with the columns of records."""
        names = frame.schema.names
        if self.selected is not None:
            # The select is avoided if possible: it would take a tenth of a small batch's time.
            return frame if [*self.selected] == names else frame.select(*self.selected)
        value = F.struct(*map(_column, names)).alias("value")
        keys = [_column(name) for name in self.keys]
        if not keys:
            return frame.select(value)
        return frame.select(value, (keys[0] if len(keys) == 1 else F.struct(*keys)).alias("key"))

    def schema(self, schema: t.StructType) -> t.StructType:
        """Return the types of the columns of records."""
        if self.selected is not None:
            return t.StructType([schema[name] for name in self.selected])
        fields = [t.StructField("value", schema, nullable=False)]
        if len(self.keys) == 1:
            fields.append(t.StructField("key", schema[self.keys[0]].dataType))
        elif self.keys:
            fields.append(t.StructField("key", t.StructType([schema[name] for name in self.keys]), nullable=False))
        return t.StructType(fields)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the columns of records."""
        if self.selected is not None:
            return batch.select(list(self.selected))
        columns = {"value": batch.to_struct_array()}
        if len(self.keys) == 1:
            columns["key"] = batch.column(self.keys[0])
        elif self.keys:
            columns["key"] = batch.select(list(self.keys)).to_struct_array()
        return pa.RecordBatch.from_pydict(columns)


def _column(name: str) -> Any:
    return F.col(backticked(name))
