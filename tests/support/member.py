"""Workers of a group without tasks, which write and read its config topic, lead it, and request fencing rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fencepost.config.group_config import GroupConfig
from fencepost.config.worker_config import WorkerConfig, WorkerMode
from fencepost.herder.distributed.config_topic import ConfigTopic
from fencepost.herder.distributed.group_fencing import GroupFencing
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.distributed.group_view import GroupView
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.distributed.readiness import Readiness
from fencepost.herder.peers.rest_client import RestClient
from fencepost.herder.work.fencing_round import FencingRounds
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.group.membership import Membership
from fencepost.kafka.group.protocol import Assignment, ConnectProtocol
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.statuses.topic import StatusBackingStore
from tests.support.topics import unique


class Member:
    """A worker of a group with only the parts that write and read the config topic, lead, and fence."""

    def __init__(self, group_id: str, bootstrap_servers: str, **settings: str) -> None:
        """`settings` are worker properties, with underscores for dots."""
        given = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group_id,
            "exactly.once.source.support": "enabled",
            **{f"{kind}.storage.topic": f"{group_id}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.converter": "org.apache.kafka.connect.storage.StringConverter" for kind in ("key", "value")},
            "fencepost.plugins.allowed.modules": "tests",
            **{name.replace("_", "."): text for name, text in settings.items()},
        }
        self.config = WorkerConfig.from_properties(given, where="a test", mode=WorkerMode.DISTRIBUTED)
        self.client = ClientConfig((bootstrap_servers,))
        worker = Worker(self.config)
        loop, producer = asyncio.get_running_loop(), ProducerConfig(self.client)
        self.configs = ConfigBackingStore(
            self.config.config_storage,
            group_id,
            clients=worker.clients,
            transactional=True,
            consumer=self.client,
            producer=producer,
            listener=lambda *_: None,
            post=loop.call_soon_threadsafe,
        )
        view = GroupView.of(self.config, "http://127.0.0.1:1")
        topic = ConfigTopic(self.configs, self.config.config_storage.name, view)
        statuses = StatusBackingStore(
            self.config.status_storage, clients=worker.clients, consumer=self.client, producer=producer
        )
        readiness = Readiness(self.config.group_id)
        self.view, self.statuses = view, statuses
        self.parts = GroupParts(worker, view, topic, statuses, readiness=readiness, metrics=GroupMetrics())
        self.rest_client = RestClient()
        group = GroupConfig.from_properties(given, where="a test")
        self.leadership = Leadership(group, topic, readiness, lambda _: None)
        rounds = FencingRounds(self.parts, self.leadership)
        self.fencing = GroupFencing(self.parts, self.leadership, rounds, self.rest_client)

    async def start(self) -> None:
        await asyncio.wrap_future(self.configs.start(self.client))

    async def lead(self) -> None:
        """Become the leader, and return once it may write to the config topic."""
        self._assigned("this one", self.view.url)
        await self.leadership.require()

    def follow(self, leader_url: str) -> None:
        """Become a follower."""
        self._assigned("another", leader_url)

    async def write(self, write: Callable[[], Any]) -> None:
        """Write to the config topic as the leader."""
        await self.leadership.write(write)

    async def close(self) -> None:
        self.leadership.lost()
        for store in (self.configs, self.statuses):
            await self.parts.run(store.close)
        await self.rest_client.close()

    def _assigned(self, leader: str, leader_url: str) -> None:
        assignment = Assignment(leader=leader, leader_url=leader_url)
        membership = Membership(
            generation=1, member_id="this one", protocol=ConnectProtocol.SESSIONED, assignment=assignment
        )
        self.leadership.assigned(membership)


def in_group(*bootstrap_servers: str, scenario: Callable[..., Coroutine[Any, Any, None]], **settings: str) -> None:
    """Run a scenario with members of a group, one for each broker address.

    `settings` are their properties, with underscores for dots.
    """

    async def run() -> None:
        group_id = unique("group")
        members = [Member(group_id, servers, **settings) for servers in bootstrap_servers]
        try:
            for member in members:
                await member.start()
            await scenario(*members)
        finally:
            for member in members:
                await member.close()

    asyncio.run(run())
