"""The context of a source task, `self.context`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.context import OffsetReader
from fencepost.api.plugin_metrics import PluginMetrics
from fencepost.api.source import TASK_ADDITIONS
from fencepost.runtime.task.transaction_context import WorkerTransactionContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TaskProperties:
    """A task's configuration. `task.additions` may get longer while the task runs. Thread-safe."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.latest: Mapping[str, str] = MappingProxyType(dict(config))
        """The latest configuration. The object is immutable; `add` replaces it."""

    def add(self, additions: str) -> None:
        """Replace `task.additions` by a longer text, which begins with the previous one."""
        self.latest = MappingProxyType({**self.latest, TASK_ADDITIONS: additions})


class WorkerSourceTaskContext:
    """Implements `fencepost.SourceTaskContext`."""

    def __init__(
        self,
        config: TaskProperties,
        offset_reader: OffsetReader,
        transaction_context: WorkerTransactionContext | None,
        spark_session: Callable[[], SparkSession],
        allowed_paths: AllowedPaths,
        *,
        plugin_metrics: PluginMetrics,
    ) -> None:
        self._config = config
        self._offset_reader = offset_reader
        self._transaction_context = transaction_context
        self._spark_session = spark_session
        self._allowed_paths = allowed_paths
        self._plugin_metrics = plugin_metrics

    @property
    def offset_reader(self) -> OffsetReader:
        """Reads this connector's committed offsets."""
        return self._offset_reader

    @property
    def transaction_context(self) -> WorkerTransactionContext | None:
        """Defines the ends of transactions; None unless `transaction.boundary=connector`."""
        return self._transaction_context

    @property
    def allowed_paths(self) -> AllowedPaths:
        """The paths from which files may be read."""
        return self._allowed_paths

    @property
    def plugin_metrics(self) -> PluginMetrics:
        """Adds the task's own metrics."""
        return self._plugin_metrics

    def configs(self) -> Mapping[str, str]:
        """Return the task's configuration, with the latest additions."""
        return self._config.latest

    def spark_session(self) -> SparkSession:
        """Return the worker's Spark session. The first call starts it. Raises SparkStartError."""
        return self._spark_session()
