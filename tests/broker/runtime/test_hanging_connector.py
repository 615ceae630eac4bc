"""Connectors whose code does not return: stops, restarts and deletions take effect all the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from fencepost import SourceConnector, SourceTask
from fencepost.herder.work.connector_work import ConnectorPlan, ConnectorWork
from fencepost.storage.configs.codec import TargetState
from tests.support.group import until
from tests.support.member import Member, in_group

NAME = "hanging"


class HangingConnector(SourceConnector):
    """Hangs in the method named by its property `in`, until `let_go`; each instance records its method calls."""

    let_go: ClassVar[threading.Event]
    did: ClassVar[list[str]]

    def start(self, config: Mapping[str, str]) -> None:
        self._where = config["in"]
        self._reach("start")

    def stop(self) -> None:
        self._reach("stop")

    def task_class(self) -> type[SourceTask]:
        return SourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        del max_tasks
        self._reach("task_configs")
        return []

    def _reach(self, where: str) -> None:
        self.did.append(f"{self._where}: {where}")
        if where == self._where:
            self.let_go.wait(300)
            self.did.append(f"{self._where}: after {where}")


class SlowlyMadeConnector(HangingConnector):
    """Its constructor waits for `may_be_made`."""

    may_be_made: ClassVar[threading.Event]

    def __init__(self) -> None:
        self.did.append("making")
        self.may_be_made.wait(300)


def test_a_plan_that_changes_while_a_connector_is_made_ends_its_hanging_start(bootstrap_servers: str) -> None:
    HangingConnector.let_go, HangingConnector.did = threading.Event(), []
    SlowlyMadeConnector.may_be_made = threading.Event()
    did = HangingConnector.did

    async def scenario(member: Member) -> None:
        await member.lead()
        work = ConnectorWork(NAME, member.parts, lambda _: None, lambda _: None)
        await configure(member, "start", SlowlyMadeConnector)
        work.want(ConnectorPlan(0, TargetState.STARTED, 0))
        await until(lambda: "making" in did)
        work.want(None)
        SlowlyMadeConnector.may_be_made.set()
        await until(lambda: "start: start" in did)

        await asyncio.wait_for(work.settled(), 60)
        assert work.gone
        HangingConnector.let_go.set()
        await until(lambda: "start: stop" in did)

    try:
        in_group(bootstrap_servers, scenario=scenario, task_shutdown_graceful_timeout_ms="2000")
    finally:
        SlowlyMadeConnector.may_be_made.set()
        HangingConnector.let_go.set()


@pytest.mark.parametrize("where", ["start", "stop", "task_configs"])
def test_a_connector_that_hangs_can_be_changed_and_removed(bootstrap_servers: str, where: str) -> None:
    HangingConnector.let_go, HangingConnector.did = threading.Event(), []
    did = HangingConnector.did

    async def scenario(member: Member) -> None:
        await member.lead()
        configuring: list[asyncio.Future[Any]] = []
        work = ConnectorWork(
            NAME,
            member.parts,
            lambda _: configuring.append(asyncio.ensure_future(work.task_configs())),
            lambda _: None,
        )
        await configure(member, where)
        work.want(ConnectorPlan(0, TargetState.STARTED, 0))
        await until(lambda: f"{where}: {'start' if where == 'stop' else where}" in did)

        await configure(member, "nowhere")
        work.want(ConnectorPlan(1, TargetState.STARTED, 0))
        await until(lambda: "nowhere: start" in did)
        work.want(None)
        await asyncio.wait_for(work.settled(), 60)
        assert work.gone
        assert f"{where}: after {where}" not in did
        await asyncio.gather(*configuring, return_exceptions=True)

        HangingConnector.let_go.set()
        await until(lambda: f"{where}: after {where}" in did)
        if where == "start":
            await until(lambda: "start: stop" in did)
        assert did.count("nowhere: stop") == 1

    try:
        in_group(bootstrap_servers, scenario=scenario, task_shutdown_graceful_timeout_ms="200")
    finally:
        HangingConnector.let_go.set()


async def configure(member: Member, where: str, connector: type[SourceConnector] = HangingConnector) -> None:
    config = {
        "name": NAME,
        "connector.class": f"{connector.__module__}.{connector.__qualname__}",
        "in": where,
    }
    await member.write(lambda: member.configs.put_connector(NAME, config))
