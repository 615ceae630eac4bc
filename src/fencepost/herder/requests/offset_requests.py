"""Requests that show and change source offsets (KIP-875).

The leader changes offsets after it has fenced former tasks. All changes of a connector's offsets have one transactional id, so
a change would fence another one of the same time: they are made one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from fencepost.api.errors import ConfigError, DataError, FencepostError, describe_error
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.worker_config import ExactlyOnceSourceSupport
from fencepost.herder.entities import ConnectorOffset, ConnectorOffsetPage
from fencepost.herder.errors import (
    BadRequestError,
    HerderError,
    NotFoundError,
    RebalanceNeededError,
    RequestFailedError,
)
from fencepost.herder.interface import Offsets
from fencepost.herder.requests.one_at_a_time import OneAtATime
from fencepost.herder.work.parts import HerderParts, Leader
from fencepost.kafka.errors import ProducerFencedError, RecordTooLargeError, UnknownOutcomeError
from fencepost.runtime.connector_offsets import alter_offsets, committed_offsets, offsets_page, reset_offsets
from fencepost.storage.configs.codec import Config, TargetState

T = TypeVar("T")


class Fencing(Protocol):
    """Fences former tasks of a connector, as the leader."""

    async def lead(self, connector: str) -> None:
        """Fence the former tasks. Raises the error that prevented this."""

    async def confirm(self, connector: str) -> None:
        """Read the config topic to its end. Raises an error if another worker may have started tasks since `lead`."""


class OffsetRequests(Offsets):
    """Answers requests about the offsets of connectors."""

    def __init__(self, parts: HerderParts, leader: Leader, fencing: Fencing) -> None:
        self._parts = parts
        self._leader = leader
        self._fencing = fencing
        self._changes = OneAtATime("the offsets")

    async def show(self, name: str) -> list[ConnectorOffset]:
        """Return a connector's offsets. Raises NotFoundError, and the errors of reading."""
        await self._parts.joined()
        config = self._config(name)
        offsets = await self._parts.run(
            self._with, name, config, lambda config: committed_offsets(self._parts.worker_for(name), config)
        )
        return [ConnectorOffset(partition, offset) for partition, offset in offsets]

    async def page(self, name: str, after: str, limit: int) -> ConnectorOffsetPage:
        """Return some of a connector's offsets. Raises the errors of `show`."""
        await self._parts.joined()
        config = self._config(name)
        page = await self._parts.run(
            self._with, name, config, lambda config: offsets_page(self._parts.worker_for(name), config, after, limit)
        )
        return ConnectorOffsetPage([ConnectorOffset(*pair) for pair in page.offsets], page.next)

    async def alter(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Set offsets. Raises BadRequestError if the connector is not stopped, or if it refuses the offsets."""
        pairs = [(offset.partition, offset.offset) for offset in offsets]
        confirm = partial(self._confirm, name)
        told = await self._change(
            name, lambda config: alter_offsets(self._parts.worker_for(name), config, pairs, confirm=confirm)
        )
        return _message(name, "altered", told=told)

    async def reset(self, name: str) -> str:
        """Remove all offsets. Raises the errors of `alter`."""
        confirm = partial(self._confirm, name)
        told = await self._change(
            name, lambda config: reset_offsets(self._parts.worker_for(name), config, confirm=confirm)
        )
        return _message(name, "reset", told=told)

    async def _change(self, name: str, change: Callable[[ConnectorConfig], bool]) -> bool:
        # A request that this worker cannot process is refused or forwarded at once.
        await self._require(name)
        return await self._changes.run(name, partial(self._change_alone, name, change))

    async def _require(self, name: str) -> None:
        await self._parts.joined()
        await self._leader.require()
        self._check(name)

    async def _change_alone(self, name: str, change: Callable[[ConnectorConfig], bool]) -> bool:
        # While the request waited for its turn, this worker may have lost its group, and the connector may have been resumed.
        await self._require(name)
        if self._parts.config.exactly_once_source_support is ExactlyOnceSourceSupport.ENABLED:
            await self._fence(name)
            self._check(name)
        try:
            return await self._parts.run(self._with, name, self._config(name), change)
        except HerderError:
            raise
        except ProducerFencedError as error:
            raise RebalanceNeededError(
                f"The change of the offsets of connector {name} was interrupted: the connector was started meanwhile, or "
                "another worker of the group changed its offsets. Look at its offsets (GET), and send the request again if they "
                "are not as wanted"
            ) from error
        except UnknownOutcomeError as error:
            raise RequestFailedError(
                f"It is not known whether the offsets of connector {name} are changed: {error.last_problem}. Look at its "
                "offsets (GET), and send the request again if they are not as wanted"
            ) from error
        except (ConfigError, DataError, RecordTooLargeError) as error:
            raise BadRequestError(f"The offsets of connector {name} are not changed: {error}") from error
        except FencepostError as error:
            raise RequestFailedError(f"The offsets of connector {name} are not changed: {error}") from error
        except Exception as error:
            raise RequestFailedError(
                f"The offsets of connector {name} are not changed, because it refused them: {describe_error(error)}"
            ) from error

    async def _fence(self, name: str) -> None:
        try:
            await self._fencing.lead(name)
        except HerderError:
            raise
        except FencepostError as error:
            raise RequestFailedError(
                f"The offsets of connector {name} are not changed, because its former tasks could not be fenced, and "
                f"might write others: {error}"
            ) from error

    def _confirm(self, name: str) -> None:
        # This runs on a thread of the pool. Meanwhile this worker may have lost its group, and the next leader may have
        # resumed the connector.
        self._parts.on_loop(self._read_and_check(name))

    async def _read_and_check(self, name: str) -> None:
        await self._fencing.confirm(name)
        self._check(name)

    def _check(self, name: str) -> None:
        self._config(name)
        state = self._parts.state
        if state.target_state(name) is not TargetState.STOPPED or state.tasks(name):
            raise BadRequestError(
                f"Connector {name} must be STOPPED before its offsets are changed: ask for PUT "
                f"/connectors/{name}/stop first, and wait until its status shows no tasks"
            )

    def _config(self, name: str) -> Config:
        config = self._parts.state.connector_config(name)
        if config is None:
            raise NotFoundError(f"There is no connector {name}")
        return config

    def _with(self, name: str, config: Config, do: Callable[[ConnectorConfig], T]) -> T:
        # This runs on a thread of the pool, because config providers may read files.
        return do(self._parts.worker_for(name).connector_config(config))


def _message(name: str, done: str, *, told: bool) -> str:
    by = "" if told else ". The connector did not process the change: state that it keeps elsewhere is unchanged"
    return f"The offsets for connector {name} have been {done} successfully{by}"
