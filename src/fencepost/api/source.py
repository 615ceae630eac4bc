"""The two classes that a connector author writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ConnectorTransactionBoundaries, ExactlyOnceSupport

if TYPE_CHECKING:
    from fencepost.api.context import SourceConnectorContext, SourceTaskContext
    from fencepost.api.record import PollResult, RecordMetadata, SourceOffset, SourcePartition, SourceRecord

Config = Mapping[str, str]
"""A connector's or task's configuration: property names and values, all strings."""


class SourceConnector(ABC):
    """Splits the work of one source into tasks and watches it for changes."""

    context: SourceConnectorContext

    def version(self) -> str:
        """Return the connector's own version."""
        return "undefined"

    def config(self) -> ConfigDef:
        """Return the definitions of the connector's own properties; the default defines none, so none is checked."""
        return ConfigDef()

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check a configuration; the default checks each property against `config`."""
        return self.config().validate(config)

    def start(self, config: Config) -> None:  # noqa: B027 - most connectors need nothing
        """Begin, with a configuration that was validated; `self.context.configs()` returns it, too."""

    def stop(self) -> None:  # noqa: B027 - most connectors hold nothing
        """Let go of what `start` took."""

    @abstractmethod
    def task_class(self) -> type[SourceTask]:
        """Return the class that does the work."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:  # noqa: ARG002 - for overriding
        """Return one configuration for each task, `max_tasks` at most; the default is one task with the connector's."""
        return [dict(self.context.configs())]

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport | None:  # noqa: ARG002 - for overriding
        """Say whether each source partition and offset let a task resume exactly where a commit left it.

        None, the default, means that the connector does not say.
        """
        return None

    def partitions_follow_task_configs(self, config: Config) -> bool:  # noqa: ARG002 - for overriding
        """Promise that source partitions follow the configurations of tasks, so that fewer are restarted.

        True says of this configuration, whatever its `tasks.max`, and of all that `task_configs` returns for it, on
        each worker and in each version of the connector that a group runs at once:

        - a task of the same number that is given the same configuration reads the same source partitions;
        - no source partition is read by two of the tasks that one call returns.

        When the tasks change, those of the same number and configuration go on then, and only the others are fenced and
        started anew (in distributed mode, with exactly-once support enabled on all workers). A task configuration that
        has `tasks.max` in it, or anything else that changes with the number of tasks, is never the same. False, the
        default, has all tasks fenced and started anew. A promise that is not kept lets records be written twice, and
        is not noticed.
        """
        return False

    def can_define_transaction_boundaries(self, config: Config) -> ConnectorTransactionBoundaries:  # noqa: ARG002
        """Say whether the connector's tasks use the transaction context."""
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def alter_offsets(
        self,
        config: Config,  # noqa: ARG002 - for overriding
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],  # noqa: ARG002
    ) -> bool:
        """Check offsets that a user wants to set (None: to remove), and move external state along.

        `offsets` are `(source_partition, source_offset)` pairs, one for each source partition. Return True if nothing
        else is left to do. Raise ConfigError or DataError to refuse them.
        """
        return False


class SourceTask(ABC):
    """Reads a part of the source. All methods are called on the task's own thread, except `stop`."""

    context: SourceTaskContext

    @abstractmethod
    def start(self, config: Config) -> None:
        """Begin, usually where `self.context.offset_reader` says that the last commit was."""

    @abstractmethod
    def poll(self) -> PollResult:
        """Return what is new, or None after waiting a little. What is returned goes into one transaction or more.

        Any iterable of records will do, a generator too: it runs to its end. RetriableError has `poll` called again after
        a pause, and shows in the task's status if that happens several times in a row; any other error fails the task.
        """

    def commit(self) -> None:  # noqa: B027 - optional
        """Take note that everything returned so far is committed."""

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:  # noqa: B027 - optional
        """Take note that `record` is committed; `metadata` is None if a transform dropped it.

        Called for each record in order, after the commit. Not called for the rows of a SourceBatch.
        """

    def lag(self) -> float | None:
        """Return how much the source has that `poll` has not returned, in a unit of the source's own, for the metrics.

        None, the default, means that the task cannot tell. Called after each `poll`: answer from what is known.
        """
        return None

    def stop(self) -> None:  # noqa: B027 - most tasks hold nothing
        """Make a waiting `poll` return soon. Called from another thread; `poll` is not called again."""

    def at_end(self) -> bool:
        """Say whether the source has an end and everything up to it was returned by `poll`.

        Only looked at where a worker was asked to stop at the source's end.
        """
        return False


def describe(value: Any) -> str:
    """Name a connector or task class the way configurations do: `package.module.Class`."""
    cls = value if isinstance(value, type) else type(value)
    return f"{cls.__module__}.{cls.__qualname__}"
