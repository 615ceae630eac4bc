"""Makes `format("fencepost")` known to Spark, which imports each top-level module whose name begins with `pyspark_`."""

from fencepost.spark.format.data_source import FencepostDataSource as DefaultSource

__all__ = ["DefaultSource"]
