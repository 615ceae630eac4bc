"""Ways to break the worker or the broker, each of which the model must notice.

A mutation takes out one step that exactly-once stands on, as a list of names with what stands there instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage import config_topic
from fencepost.storage.config_writer import PlainLeaderWriter
from fencepost.storage.connector_offset_store import ConnectorOffsetStore
from fencepost.worker.errors import RequestTargetError
from fencepost.worker.fencing_round import FencingRounds
from fencepost.worker.task_work import GroupChecks
from tests.sim.broker import Broker
from tests.sim.clients import SimAdmin
from tests.sim.schedule import Mutation


def _fences_nothing(admin: SimAdmin, ids: Iterable[str]) -> SimAdmin:
    del ids
    return admin


async def _checks_without_reading(checks: GroupChecks, task: ConnectorTaskId) -> None:
    await checks._check(task)


async def _asks_nobody(rounds: FencingRounds, connector: str) -> None:
    del rounds, connector


async def _leads_with_what_it_has_read(rounds: FencingRounds, connector: str) -> None:
    await rounds._leadership.require()
    await rounds._shared(rounds._rounds, connector, rounds._round)


async def _believes_the_leader(rounds: FencingRounds, connector: str) -> None:
    if not rounds._is_due(connector):
        return
    try:
        await rounds.lead(connector)
    except RequestTargetError as elsewhere:
        if elsewhere.forward_url is None:
            raise
        await rounds._parts.client.fence_zombie_source_tasks(
            elsewhere.forward_url, connector, rounds._leadership.signer
        )


def _reads_nothing(store: ConnectorOffsetStore, *_: Any) -> None:
    """Leave the offsets as they were last read."""


def _plain_writer(producer: Any, transactional_id: str, topic: str) -> PlainLeaderWriter:
    del transactional_id
    return PlainLeaderWriter(config_topic.PlainProducer(producer), topic)


@dataclass(frozen=True)
class Guard:
    """A step that exactly-once stands on, and what is left without it.

    `first_seed` is where to look first for a schedule that notices: it saves time, and may be out of date.
    """

    mutation: Mutation
    first_seed: int = 0


MUTATIONS: Final[Mapping[str, Guard]] = {
    "the fencing call": Guard([(SimAdmin, "fence_producers", _fences_nothing)], 1),
    "the read to the end after owning the id": Guard([(GroupChecks, "_read_and_check", _checks_without_reading)], 167),
    "the task count check": Guard([(FencingRounds, "fence", _asks_nobody)], 8),
    "the leader's read before a round": Guard(
        [
            (FencingRounds, "lead", _leads_with_what_it_has_read),
            (FencingRounds, "_fence_by_leader", _believes_the_leader),
        ],
        464,
    ),
    "the epoch bump": Guard([(Broker, "bumps_epochs", False)]),
    "the leader's transaction": Guard([(config_topic, "TransactionalLeaderWriter", _plain_writer)], 160),
    "the read of the offsets at a start": Guard([(ConnectorOffsetStore, "refresh", _reads_nothing)]),
}
