# ruff: noqa: INP001 - Python imports it by its name alone
"""Imports ahead, in the daemons from which Spark forks the steps of a data source: a second of CPU for each step.

Python imports this module at its start where this folder is in PYTHONPATH.
"""

import gc
import importlib
import sys

if "pyspark.daemon" in sys.orig_argv:
    for name in (
        "pyspark.sql.worker.write_into_data_source",
        "pyspark.sql.worker.commit_data_source_write",
        "pyspark.sql.worker.create_data_source",
        "pyspark.sql.worker.python_streaming_sink_runner",
        "pyspark.sql.pandas.types",
        "pyarrow.compute",
        "fencepost.converters",
        "fencepost.spark.format.stream",
        "fencepost.spark.format.writer",
    ):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
