"""Errors of the stores of the worker's own topics."""

from __future__ import annotations

from typing import Final

from fencepost.api.errors import DataError, FencepostError, RetriableError, describe_error

_CHECK_CLUSTER: Final = (
    "This can be retried; if it keeps failing, check the health of the Kafka cluster and that only one cluster of "
    "workers uses this group.id"
)


class UnstorableOffsetError(DataError):
    """A source partition or offset cannot be encoded for the offsets topic.

    The message names the connector and the value.
    """


class ConfigWriteError(RetriableError):
    """A write to the config topic failed. The request that needed it can be retried.

    `privilege_lost` means that this worker must claim the write privilege again before it writes as the leader.
    """

    def __init__(
        self, what: str, topic: str, reason: str, *, privilege_lost: bool, advice: str = _CHECK_CLUSTER
    ) -> None:
        super().__init__(f"{what} could not be written to the config topic {topic}: {reason}. {advice}")
        self.topic = topic
        self.privilege_lost = privilege_lost


class ConfigTimestampError(ConfigWriteError):
    """The broker refused a write because the clock of this worker's machine is wrong. The write privilege is kept."""

    def __init__(self, what: str, topic: str) -> None:
        super().__init__(
            what,
            topic,
            "the clock of this worker's machine is further from the broker's than message.timestamp.before.max.ms and "
            "message.timestamp.after.max.ms of the topic allow (INVALID_TIMESTAMP)",
            privilege_lost=False,
            advice="Set the clock, then retry",
        )


class TopicReplacedError(FencepostError):
    """A followed topic was deleted and created again."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"Topic {topic} was deleted and created again: its records are lost")
        self.topic = topic


class OffsetsTopicMissingError(RetriableError):
    """An offsets topic was deleted while a task committed to it."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"Topic {topic}, which holds the source offsets of this task, does not exist any more. The task "
            "restarts, creates it, and continues from the offsets that the worker holds in memory or in its own offsets "
            "topic. Prevent others from deleting it"
        )
        self.topic = topic


class ConfigTooLargeError(DataError):
    """A write to the config topic exceeds the maximum size of a record. Nothing was written."""

    def __init__(self, what: str, topic: str, *, size: int, limit: int | None) -> None:
        limit_text = "" if limit is None else f"the {limit} bytes that "
        super().__init__(
            f"{what} takes {size} bytes, more than {limit_text}a record of the config topic {topic} may "
            "have: make it smaller (task configurations: raise tasks.max), or raise "
            "producer.max.request.size of all workers and max.message.bytes of the topic"
        )


class SharedPartitionError(FencepostError):
    """Two tasks of a connector commit offsets of the same source partition at the same time."""

    def __init__(self, connector: str, partition: str, tasks: tuple[str, str]) -> None:
        one, other = sorted(tasks)
        super().__init__(
            f"Two tasks of connector {connector} write the source partition {partition}: those with the transactional "
            f"ids {one} and {other}. Each replaces the offsets of the other, so records are written twice or lost. Let "
            "each source partition belong to one task (task_configs of the connector), compare the records of "
            "this source partition with the source, then restart the connector and its tasks"
        )
        self.connector = connector
        self.partition = partition
        self.tasks = (one, other)


class OffsetsNotCopiedError(RetriableError):
    """Offsets of a connector with its own offsets topic could not be written to the worker's topic in time."""

    def __init__(self, topic: str, connector: str, timeout_s: float, cause: Exception | None) -> None:
        why = "its brokers are slow" if cause is None else describe_error(cause)
        super().__init__(
            f"The offsets of connector {connector} could not be written to the worker's offsets topic {topic} within "
            f"{timeout_s:.0f} s: {why}. Check the health of that topic and the worker's right to WRITE to it, then try "
            "again"
        )
        self.topic = topic
        self.connector = connector
