"""The interfaces that the worker provides to connectors and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fencepost.api.allowed_paths import AllowedPaths
    from fencepost.api.plugin_metrics import PluginMetrics
    from fencepost.api.record import SourcePartition, SourceRecord


class ExactlyOnceSupport(StrEnum):
    """A connector's answer to whether it can deliver exactly once with a given configuration (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class ConnectorTransactionBoundaries(StrEnum):
    """A connector's answer to whether it can define its own transaction boundaries (KIP-618)."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class OffsetReader(Protocol):
    """Reads committed source offsets."""

    def offset(self, partition: SourcePartition) -> dict[str, Any] | None:
        """Return the last committed offset of a source partition, None if there is none."""

    def offsets(self, partitions: Iterable[SourcePartition]) -> list[dict[str, Any] | None]:
        """Return the last committed offset of each source partition, in the order given."""

    def items(self) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
        """Return all committed offsets of the connector: each source partition with its offset.

        Kafka Connect has no such method: there, tasks must know the source partitions that they ask for.
        """


class TransactionContext(Protocol):
    """Lets a task with `transaction.boundary=connector` define where its transactions end.

    Without `record`, the request is for the batch that the next (or current) `poll` returns, and takes effect after the
    batch's last record. With `record`, it takes effect right after that record. A request applies once. Records of an
    aborted transaction are never visible to read_committed consumers. Their source offsets are committed nevertheless,
    so the records are not read again.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Request a commit after `record`, or after the batch if `record` is None."""

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Request an abort after `record`, or after the batch if `record` is None."""


class SourceTaskContext(Protocol):
    """A source task's access to the worker, available as `self.context` before `start`."""

    @property
    def offset_reader(self) -> OffsetReader:
        """Reads this connector's committed offsets."""

    @property
    def transaction_context(self) -> TransactionContext | None:
        """Defines transactions; None unless `transaction.boundary=connector`."""

    @property
    def allowed_paths(self) -> AllowedPaths:
        """The worker's restriction of files that a configuration may name: open them with its `open`."""

    @property
    def plugin_metrics(self) -> PluginMetrics:
        """Adds the task's own metrics (KIP-877), which GET /metrics shows until the task stops."""

    def configs(self) -> Mapping[str, str]:
        """Return the task's configuration, with the values of config providers filled in.

        The result is the configuration with which the task started. Only `task.additions` (see
        `SourceConnector.partitions_follow_task_configs`) has its latest text, in which placeholders of config providers
        are not filled in.
        """

    def spark_session(self) -> SparkSession:
        """Return the worker's Spark session, for tasks that return DataFrames. The first call starts Spark."""


class SourceConnectorContext(Protocol):
    """A source connector's access to the worker, available as `self.context` before `start`.

    While a configuration is validated, only `configs` and `allowed_paths` are available, and while offsets are altered
    also `offset_reader`; all other members raise IllegalStateError.
    """

    @property
    def offset_reader(self) -> OffsetReader:
        """Reads this connector's committed offsets."""

    def configs(self) -> Mapping[str, str]:
        """Return the connector's configuration, with the values of config providers filled in."""

    @property
    def allowed_paths(self) -> AllowedPaths:
        """The worker's restriction of files that a configuration may name: open them with its `open`."""

    @property
    def plugin_metrics(self) -> PluginMetrics:
        """Adds the connector's own metrics (KIP-877), which GET /metrics shows until the connector stops."""

    def request_task_reconfiguration(self) -> None:
        """Request a new call of `task_configs`, because the work of the tasks has changed."""

    def raise_error(self, error: Exception) -> None:
        """Report a failure from a thread of the connector: the connector becomes FAILED.

        A worker of a group restarts the connector with a new instance if `task.restart.policy` covers the failure, for
        example a RetriableError. The tasks keep running.
        """
