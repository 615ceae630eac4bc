"""Ways to break the worker or the broker, each of which the model must notice.

A mutation takes out one step that exactly-once stands on, as a list of names with what stands there instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.herder.distributed.group_fencing import GroupFencing
from fencepost.herder.errors import RequestTargetError
from fencepost.herder.work.fencing_round import FencingRounds
from fencepost.storage.configs.state import ClusterConfigState
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore
from fencepost.storage.offsets.overlay import OffsetView
from fencepost.storage.offsets.table import OffsetTable, StoredOffset
from tests.sim import source
from tests.sim.broker import Broker
from tests.sim.clients import SimAdmin
from tests.sim.schedule import Mutation
from tests.sim.source import NumbersTask, SteadyConnector


def _fences_nothing(admin: SimAdmin, ids: Iterable[str]) -> SimAdmin:
    del ids
    return admin


async def _asks_nobody(fencing: GroupFencing, connector: str) -> None:
    del fencing, connector


async def _leads_with_what_it_has_read(rounds: FencingRounds, connector: str) -> None:
    await rounds._counts.require()
    await rounds._rounds.call(connector, rounds._round)


async def _believes_the_leader(fencing: GroupFencing, connector: str) -> None:
    if not fencing._parts.fencing_is_due(connector):
        return
    try:
        await fencing._rounds.lead(connector)
    except RequestTargetError as elsewhere:
        if elsewhere.forward_url is None:
            raise
        await fencing._client.fence_zombie_source_tasks(elsewhere.forward_url, connector, fencing._leadership.signer)


def _writes_in_any_attempt(*_: Any, **__: Any) -> None:
    pass


def _agrees(_: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return {}


def _reads_nothing(store: ConnectorOffsetStore, *_: Any) -> None:
    """Keep the offsets of the last read."""


def _looks_in_no_other_topic(view: OffsetView, connector: str, own: OffsetTable, *others: OffsetTable) -> None:
    del others
    _view(view, connector, own)


_view = OffsetView.__init__


def _takes_the_first(stored: StoredOffset, other: StoredOffset) -> bool:
    del stored, other
    return False


def _leaves_former_topics(store: ConnectorOffsetStore, *_: Any) -> None:
    """Ignore offsets that were not copied from a former topic."""


def _leads_without_transactions(store: ConfigBackingStore, *args: Any, transactional: bool, **parts: Any) -> None:
    del transactional
    _config_store(store, *args, transactional=False, **parts)


_config_store = ConfigBackingStore.__init__


_shares: list[list[int]] = []


def _configs_without_partitions(connector: SteadyConnector, max_tasks: int) -> list[dict[str, str]]:
    _shares[:] = connector._shares(max_tasks)
    return [{"number": str(number), "records": connector._config["records"]} for number in range(len(_shares))]


_start = NumbersTask.start


def _start_by_what_was_last_said(task: NumbersTask, config: Mapping[str, str]) -> None:
    if "number" in config:
        number = int(config["number"])
        share = _shares[number] if number < len(_shares) else []
        config = {**config, "partitions": json.dumps(share)}
    _start(task, config)


def _all_that_stay(state: ClusterConfigState, connector: str) -> frozenset[int]:
    return frozenset(task.task for task in state.tasks(connector))


MUTATIONS: Final[Mapping[str, Mutation]] = {
    "the fencing call": [(SimAdmin, "fence_producers", _fences_nothing)],
    "the read to the end after owning the id": [(GroupFencing, "confirm", _asks_nobody)],
    "the task count check": [(GroupFencing, "fence", _asks_nobody)],
    "the leader's read before a round": [
        (FencingRounds, "lead", _leads_with_what_it_has_read),
        (GroupFencing, "_fence_by_leader", _believes_the_leader),
    ],
    "the epoch bump": [(Broker, "bumps_epochs", False)],
    "the leader's transaction": [(ConfigBackingStore, "__init__", _leads_without_transactions)],
    "the read of the offsets at a start": [(ConnectorOffsetStore, "refresh", _reads_nothing)],
    "the worker's offsets below those of an own topic": [(OffsetView, "__init__", _looks_in_no_other_topic)],
    "the refusal of a stage that Spark runs again": [(source, "check_stage_attempt", _writes_in_any_attempt)],
    "the agreement on the numbers of partitions": [(source, "agreed", _agrees)],
    "the newest commit of several topics": [(StoredOffset, "is_newer_than", _takes_the_first)],
    "the former offsets topics of a connector": [(ConnectorOffsetStore, "_refresh_former", _leaves_former_topics)],
    "the fencing of tasks that change": [(ClusterConfigState, "unchanged_tasks", _all_that_stay)],
    "the partitions in the configurations of steady tasks": [
        (SteadyConnector, "task_configs", _configs_without_partitions),
        (NumbersTask, "start", _start_by_what_was_last_said),
    ],
}
"""The mutations, by the step that each one removes."""

_SEEDS: Final = Path(__file__).with_name("noticing_seeds.json")


def noticing_seeds() -> dict[str, int]:
    """Return seeds that may notice each mutation: they save time, and may be outdated."""
    seeds: dict[str, int] = json.loads(_SEEDS.read_text(encoding="utf-8"))
    return seeds


def keep(seeds: Mapping[str, int]) -> None:
    """Store the seeds that were found, for the next search."""
    _SEEDS.write_text(json.dumps(seeds, indent=2) + "\n", encoding="utf-8")
