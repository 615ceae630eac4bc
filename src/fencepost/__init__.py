"""fencepost brings data into Kafka exactly once. Authors of connectors import this module."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.config_provider import ConfigProvider
from fencepost.api.context import (
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    OffsetReader,
    SourceConnectorContext,
    SourceTaskContext,
    TransactionContext,
)
from fencepost.api.errors import ConfigError, DataError, FencepostError, IllegalStateError, RetriableError
from fencepost.api.plugin import Converter, HeaderConverter, Predicate, Transformation
from fencepost.api.plugin_metrics import MetricName, Monitorable, PluginCounter, PluginMetrics
from fencepost.api.record import ArrowReader, RecordMetadata, RefusedRow, SourceBatch, SourceRecord, TolerantReader
from fencepost.api.source import SourceConnector, SourceTask
from fencepost.connectors.functions.source import source
from fencepost.transforms.function_transform import transform
from fencepost.version import __version__

if TYPE_CHECKING:
    from fencepost.cli.run.script import RunError, RunResult, run
    from fencepost.connectors.functions.dataframes import pyspark_source

__all__ = [
    "ArrowReader",
    "ConfigDef",
    "ConfigError",
    "ConfigProvider",
    "ConfigValue",
    "ConnectorTransactionBoundaries",
    "Converter",
    "DataError",
    "ExactlyOnceSupport",
    "FencepostError",
    "HeaderConverter",
    "IllegalStateError",
    "MetricName",
    "Monitorable",
    "OffsetReader",
    "PluginCounter",
    "PluginMetrics",
    "Predicate",
    "RecordMetadata",
    "RefusedRow",
    "RetriableError",
    "RunError",
    "RunResult",
    "SourceBatch",
    "SourceConnector",
    "SourceConnectorContext",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "TolerantReader",
    "TransactionContext",
    "Transformation",
    "__version__",
    "pyspark_source",
    "run",
    "source",
    "transform",
]


# Importing PySpark takes half a second, importing a worker takes longer, and most connectors need neither.
_LATER = {
    "pyspark_source": "fencepost.connectors.functions.dataframes",
    "run": "fencepost.cli.run.script",
    "RunError": "fencepost.cli.run.script",
    "RunResult": "fencepost.cli.run.script",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
