"""A deposed leader changes nothing, and a leader that cannot fence in time says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.errors import (
    BadRequestError,
    RebalanceNeededError,
    RequestFailedError,
    ServiceUnavailableError,
)
from fencepost.herder.work.fencing_round import FencingRounds, task_set
from fencepost.kafka.admin.fencing import FencingTimeoutError
from fencepost.runtime.state import State
from fencepost.storage.configs.codec import TargetState
from tests.sim.clients import SimAdmin
from tests.sim.scripted import ScriptedWorld
from tests.sim.site import GROUP_ID


def test_a_zombie_leader_changes_nothing_and_answers_that_a_retry_may_help() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        zombie = world.workers()[0][1]
        process, successor, asked = world.replace_leader_amid(
            f"EndTxn of connect-cluster-{GROUP_ID}", lambda leader: leader.connectors.stop("a")
        )
        world.change(successor._view.url)
        assert zombie._leadership.leads
        process.resume()
        world.wait_for(asked[0].done)
        with pytest.raises(RequestFailedError, match=r"The stop of connector a could not be written .* can be retried"):
            asked[0].result()
        world.wait_for(lambda: not zombie._leadership.leads and zombie._leadership.membership is not None)
        assert (world.tasks, world.checker.state.target_state("a")) == (5, TargetState.STARTED)

    ScriptedWorld(script).play()


def test_unread_task_configs_are_not_treated_as_fenced() -> None:
    asked: list[asyncio.Task[None]] = []

    def script(world: ScriptedWorld) -> None:
        world.create()
        site, leader = world.workers()[0]
        leadership, configs = leader._leadership, leader._parts.configs
        rounds, tasks = FencingRounds(leader._parts, leadership), task_set(configs.state, "a")

        def ask() -> None:
            one_task = configs.state.task_configs("a")[:1]
            asked.append(asyncio.ensure_future(leadership.write(lambda: configs.put_task_configs("a", one_task))))
            # The round for the three tasks does so if it is still running when the one task is written.
            count = leadership.write(lambda: configs.put_task_count("a", 3), check=lambda: rounds._check(tasks))
            asked.append(asyncio.ensure_future(count))

        world._deafen(site.process, 40.0)
        world.kernel.later(0.0, ask, site.process)
        world.wait_for(lambda: len(asked) == 2 and all(task.done() for task in asked))
        with pytest.raises(RequestFailedError, match="the topic could not be read"):
            asked[0].result()
        with pytest.raises(RebalanceNeededError, match="newer task configurations"):
            asked[1].result()

    ScriptedWorld(script).play()


def test_a_write_that_waited_for_one_that_cost_the_right_to_write_is_not_done() -> None:
    asked: list[asyncio.Task[None]] = []

    def script(world: ScriptedWorld) -> None:
        world.create()
        (site, zombie), (_, successor) = world.workers()
        world.freeze_at(site.process, f"EndTxn of connect-cluster-{GROUP_ID}")
        for stop in zombie.connectors.stop("a"), zombie.connectors.delete("a"):
            world.kernel.later(0.0, lambda stop=stop: asked.append(asyncio.ensure_future(stop)), site.process)
        world.wait_for(lambda: successor._leadership.leads)
        site.process.resume()
        world.wait_for(lambda: len(asked) == 2 and all(task.done() for task in asked))
        assert isinstance(asked[0].exception(), RequestFailedError)
        assert isinstance(asked[1].exception(), ServiceUnavailableError)

    ScriptedWorld(script).play()


def test_tasks_report_that_fencing_timed_out_until_it_succeeds() -> None:
    slow = [True]

    def fence_producers(admin: SimAdmin, ids: Iterable[str]) -> Any:
        if slow[0]:
            raise FencingTimeoutError(next(iter(ids)), 30_000, "no answer yet")
        return fence(admin, ids)

    def script(world: ScriptedWorld) -> None:
        world.create()
        world.change()
        statuses = world.here().statuses.table
        tasks = [ConnectorTaskId("a", number) for number in range(5)]

        def told(task: ConnectorTaskId) -> bool:
            status = statuses.task(task)
            if status is None or status.state != State.RESTARTING:
                return False
            said = (
                "The former tasks of connector a are not fenced: The producer group-a-0 could not be fenced within "
                "30000 ms; the last problem was: no answer yet. Check the health of the brokers"
            )
            return said in (status.trace or "")

        # Some requests go to the leader itself; others are forwarded to it.
        for task in tasks:
            world.wait_for(lambda task=task: told(task))
        slow[0] = False
        world.wait_for(lambda: all(statuses.task(task).state == State.RUNNING for task in tasks))

    fence = SimAdmin.fence_producers
    ScriptedWorld(script, [(SimAdmin, "fence_producers", fence_producers)]).play()


def test_a_zombie_leader_cannot_reset_offsets_of_a_connector_its_successor_resumed() -> None:
    def script(world: ScriptedWorld) -> None:
        world.create()
        world.wait_for(lambda: len(world.checker.stored()) > 0)
        world.stop()
        process, successor, asked = world.replace_leader_amid(
            f"InitProducerId of {GROUP_ID}-a-0", lambda leader: leader.offsets.reset("a")
        )
        assert world._ask("resumes a", lambda herder: herder.connectors.resume("a"), successor._view.url)
        world.wait_for(lambda: world.tasks == 3)
        process.resume()
        world.wait_for(asked[0].done)
        with pytest.raises(BadRequestError, match="Connector a must be STOPPED before its offsets are changed"):
            asked[0].result()
        # The new tasks must resume at the existing offsets.
        world.kernel.sleep(20.0)

    ScriptedWorld(script).play()
