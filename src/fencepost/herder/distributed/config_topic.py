"""The config topic as a worker of a group reads it."""

from __future__ import annotations

import asyncio

from fencepost.herder.core.calls import outcome_of
from fencepost.herder.distributed.group_view import GroupView
from fencepost.herder.errors import RequestFailedError
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.errors import TopicReplacedError


class ConfigTopic:
    """Reads the config topic, and says why it cannot be read. Only for the event loop.

    `store` also writes to the topic. `name` is the topic's name.
    """

    def __init__(self, store: ConfigBackingStore, name: str, view: GroupView) -> None:
        self.store = store
        self.name = name
        self._view = view
        self._reading: asyncio.Future[None] | None = None
        self._next_read: asyncio.Future[None] | None = None

    @property
    def state(self) -> ClusterConfigState:
        """The state according to the records read so far."""
        return self.store.state

    @property
    def problem(self) -> str | None:
        """Why the topic is not read, with the remedy; None if it is read.

        The reason is a fatal error, or a leader that uses another topic.
        """
        if not self._view.topics.knows_connectors:
            return self._view.topics.advice
        failure = self.store.fatal_failure
        if isinstance(failure, TopicNotFoundError | TopicReplacedError):
            again = " and created again" if isinstance(failure, TopicReplacedError) else ""
            return (
                f"The config topic {self.name} was deleted{again}, which holds the connectors' configurations. Stop the "
                "workers of the group, restore the topic if there is a copy of it, and start them: they create it empty if "
                "it is missing, and connectors have to be created again then. They continue from their source offsets, "
                "which are in another topic"
            )
        return None if failure is None else f"The config topic {self.name} cannot be read: {failure}"

    def check(self) -> None:
        """Raise RequestFailedError, with the `problem` as its text, if the topic is not read."""
        if (problem := self.problem) is not None:
            raise RequestFailedError(problem)

    async def read(self) -> None:
        """Read everything that was committed before this call.

        Calls during a read share the next read, because hundreds of tasks call this method when they start. Raises the
        errors of `ConfigBackingStore.read_to_end`.
        """
        if self._next_read is None:
            self._next_read = asyncio.ensure_future(self._read_after(self._reading))
        await outcome_of(self._next_read)

    async def _read_after(self, former: asyncio.Future[None] | None) -> None:
        if former is not None:
            await asyncio.wait([former])
        self._reading, self._next_read = self._next_read, None
        await asyncio.wrap_future(self.store.read_to_end())
