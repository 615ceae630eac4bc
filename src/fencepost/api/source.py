"""The two base classes for connector authors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ConnectorTransactionBoundaries, ExactlyOnceSupport

if TYPE_CHECKING:
    import pyarrow as pa

    from fencepost.api.context import SourceConnectorContext, SourceTaskContext
    from fencepost.api.record import (
        PollResult,
        RecordMetadata,
        SourceBatch,
        SourceOffset,
        SourcePartition,
        SourceRecord,
    )

Config = Mapping[str, str]
"""A connector's or task's configuration: property names and values, all strings."""

TASK_ADDITIONS: Final = "task.additions"
"""The property of a task's configuration that may become longer while the task runs.

See `SourceConnector.partitions_follow_task_configs`.
"""


class SourceConnector(ABC):
    """Divides the work of one source into tasks, and monitors the source for changes."""

    context: SourceConnectorContext

    default_transaction_boundary: ClassVar[str] = "poll"
    """The default of `transaction.boundary` for this connector: poll, interval or connector."""

    def version(self) -> str:
        """Return the connector's own version."""
        return "undefined"

    def config(self) -> ConfigDef:
        """Return the definitions of the connector's own properties.

        By default there are none, so nothing is checked.
        """
        return ConfigDef()

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check a configuration. By default, each property is checked against the definitions that `config` returns."""
        return self.config().validate(config)

    def start(self, config: Config) -> None:  # noqa: B027 - most connectors need nothing
        """Start with a validated configuration. `self.context.configs()` returns the same configuration."""

    def stop(self) -> None:  # noqa: B027 - most connectors hold nothing
        """Release what `start` acquired."""

    @abstractmethod
    def task_class(self) -> type[SourceTask]:
        """Return the class of the tasks.

        This method is called for each task, on the worker that runs the task, where `start` was not called. So a
        connector with several classes must choose one only by its configuration, `self.context.configs()`.
        """

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:  # noqa: ARG002 - for overriding
        """Return one configuration for each task, at most `max_tasks`.

        By default, one task gets the connector's configuration.
        """
        return [dict(self.context.configs())]

    def known_schemas(self, config: Config) -> Mapping[str, str]:  # noqa: ARG002 - for overriding
        """Return the topics whose records' schema is known from the configuration, each with its columns as DDL.

        The columns have the form of an ArrowReader's schema, such as `key BIGINT, value STRUCT<id: BIGINT>`. The
        validation of a configuration asks converters whether they can write these columns. This is called for a valid
        configuration, before `start`.
        """
        return {}

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport | None:  # noqa: ARG002 - for overriding
        """Return whether a task can resume from a source partition and offset exactly at the position of a commit.

        The default is None, which means that this is unknown.
        """
        return None

    def partitions_follow_task_configs(self, config: Config) -> bool:  # noqa: ARG002 - for overriding
        """Promise that source partitions follow the configurations of tasks, so that fewer tasks are restarted.

        True is a promise for this configuration with any `tasks.max`, and for everything that `task_configs` returns
        for it, on each worker and in each version of the connector that a group runs at the same time:

        - A task with the same number and the same configuration reads the same source partitions.
        - No two tasks from one call read the same source partition.

        Then, when the tasks change, tasks with the same number and configuration keep running, and only the other tasks
        are fenced and restarted (in distributed mode, with exactly-once support enabled on all workers). A task
        configuration that contains `tasks.max`, or anything else that changes with the number of tasks, is never the
        same. With False, the default, all tasks are fenced and restarted. If the promise is broken, records may be
        written twice, until the connector fails because two of its tasks commit the same source partition.

        Tasks can also get more source partitions while they run. If the only difference from the previous
        configurations is that some tasks have a longer `task.additions`, which begins with the previous text, then all
        tasks keep running, and find the longer text in `self.context.configs()` at a later `poll`. By the same promise,
        such a task reads the source partitions that it read before, and more. It reads the offsets of the new
        partitions when it finds them: no earlier task can commit these offsets any more. The tasks may nevertheless be
        restarted, with the longer text from the start.
        """
        return False

    def can_define_transaction_boundaries(self, config: Config) -> ConnectorTransactionBoundaries:  # noqa: ARG002
        """Return whether the connector's tasks use the transaction context."""
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def alter_offsets(
        self,
        config: Config,  # noqa: ARG002 - for overriding
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],  # noqa: ARG002
    ) -> bool:
        """Check offsets that a user wants to set (None: to remove), and update external state.

        `offsets` are `(source_partition, source_offset)` pairs, one for each source partition.
        `self.context.offset_reader` has the offsets that are committed now. Return True if nothing else needs to be
        done. Raise ConfigError or DataError to refuse the offsets.
        """
        return False

    def bind_offsets(
        self,
        config: Config,  # noqa: ARG002 - for overriding
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> Sequence[tuple[SourcePartition | None, SourceOffset | None]]:
        """Return the offsets to store, after `alter_offsets` has accepted the offsets that a user wants to set.

        Each source partition is returned once, with its offset, or None if it is to be removed. An offset may get more
        fields, such as a fingerprint of the current source: without it, a task could not detect that another source has
        taken its place meanwhile. Kafka Connect has no such method. By default the offsets are stored as they are.
        """
        return offsets


class SourceTask(ABC):
    """Reads a part of the source. All methods are called on the task's own thread, except `stop`."""

    context: SourceTaskContext

    @abstractmethod
    def start(self, config: Config) -> None:
        """Start, usually from the last committed offset in `self.context.offset_reader`."""

    @abstractmethod
    def poll(self) -> PollResult:
        """Return new records, or None after a short wait. The result is written in one or more transactions.

        Any iterable of records is allowed. A generator is run to its end. After a RetriableError, `poll` is called
        again after a pause; the task's status shows several RetriableErrors in a row. Any other error fails the task.
        """

    def commit(self) -> None:  # noqa: B027 - optional
        """Called after a commit. All records that `poll` has returned so far are then committed."""

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:  # noqa: B027 - optional
        """Called when `record` is committed; `metadata` is None if a transform dropped it.

        Called for each record in order, after the commit. Not called for the rows of a SourceBatch.
        """

    def commit_batch(self, batch: SourceBatch, places: pa.RecordBatch) -> None:  # noqa: B027 - optional
        """Called when a batch from `SourceBatch.of_columns` is committed, with the place of each of its rows.

        `places` has the columns `topic` (STRING), `partition` (INT32), `offset` (INT64) and `timestamp` (INT64,
        milliseconds), in the order of the rows. Called for all such batches in order, after the commit and before
        `commit`.
        """

    def lag(self) -> float | None:
        """Return how much of the source `poll` has not returned yet, in the source's own unit, for the metrics.

        None, the default, means unknown; infinity and NaN do, too. Called after `start`, where an error is ignored,
        and after each `poll`. So it should return a stored value without asking the source.
        """
        return None

    def stop(self) -> None:  # noqa: B027 - most tasks hold nothing
        """Make a blocked `poll` return soon. Called from another thread. After it, `poll` is not called again."""

    def close(self) -> None:  # noqa: B027 - most tasks hold nothing
        """Release what `start` acquired.

        This is the last call, on the task's own thread, after `stop` and the last `commit`.
        """

    def at_end(self) -> bool:
        """Return whether the source has an end, and `poll` has returned everything up to that end.

        This method is only used if the worker was started to stop at the source's end. It is called after a `poll` that
        returned nothing. So if a source grows all the time, `poll` should return nothing once when it reaches the end
        that the source had at the start.
        """
        return False


def describe(value: Any) -> str:
    """Return the name of a connector or task class in the form for configurations: `package.module.Class`."""
    cls = value if isinstance(value, type) else type(value)
    return f"{cls.__module__}.{cls.__qualname__}"
