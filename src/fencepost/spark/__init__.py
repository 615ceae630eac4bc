"""Exactly-once writes to Kafka for Spark users: from Structured Streaming, and from DataFrames.

    exactly_once(topic=...)      the function for `writeStream.foreachBatch`: one transaction for each micro-batch
    write_kafka(df, topic=...)   one transaction for a DataFrame

Both functions use the existing session, and the same engine as fencepost's worker: executors write into a transaction
that the driver begins and ends. docs/spark.md is the page for users.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.spark.batch import write_kafka
    from fencepost.spark.foreach_batch import ExactlyOnce, exactly_once
    from fencepost.spark.written import SinkStatistics, Written

__all__ = ["ExactlyOnce", "SinkStatistics", "Written", "exactly_once", "write_kafka"]

_MODULES = {
    "ExactlyOnce": "foreach_batch",
    "SinkStatistics": "written",
    "Written": "written",
    "exactly_once": "foreach_batch",
    "write_kafka": "batch",
}


def __getattr__(name: str) -> Any:
    # Executors import only one small module of this package, and not the modules for drivers.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
