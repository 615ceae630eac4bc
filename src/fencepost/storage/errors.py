"""What goes wrong with the stores of the worker's own topics. Below fencepost.api.errors."""

from __future__ import annotations

from fencepost.api.errors import RetriableError


class ConfigWriteError(RetriableError):
    """A write to the config topic failed; the request that it was for can be retried.

    `privilege_lost` says that this worker may not write as the leader before it has claimed that right again.
    """

    def __init__(self, what: str, topic: str, reason: str, *, privilege_lost: bool) -> None:
        super().__init__(
            f"{what} could not be written to the config topic {topic}: {reason}. This can be retried; if it keeps "
            "failing, check the health of the Kafka cluster and that only one cluster of workers uses this group.id"
        )
        self.topic = topic
        self.privilege_lost = privilege_lost
