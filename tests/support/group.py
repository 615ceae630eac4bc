"""Group members without connectors and tasks: they only record their assignments."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.assignor import Unit, Work
from fencepost.herder.distributed.assignor_leader import ConfiguredWork, LeaderAssignor
from fencepost.herder.distributed.group_metrics import GroupMetrics
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.group.member import GroupMember
from fencepost.kafka.group.membership import GroupSettings, Membership
from fencepost.kafka.group.protocol import ConnectProtocol

SESSION_MS = 6_000  # the shortest session timeout that brokers allow by default


class Cluster:
    """The state that the workers of one group share: the configured connectors and tasks, and all assignments."""

    def __init__(self, group_id: str, task_counts: dict[str, int], *, max_delay_ms: int = 0) -> None:
        self.group_id = group_id
        self.configured = ConfiguredWork(config_offset=1, task_counts=task_counts)
        self.max_delay_ms = max_delay_ms
        self.workers: list[RecordingWorker] = []
        self.run_twice: list[Unit] = []

    def worker(self, name: str, bootstrap_servers: str, **settings: Any) -> RecordingWorker:
        """Start a worker."""
        worker = RecordingWorker(self, name, bootstrap_servers, **settings)
        self.workers.append(worker)
        worker.member.start()
        return worker

    async def settled(self, *workers: RecordingWorker) -> None:
        """Wait until these workers run everything in equal shares, up to one connector and one task."""
        await until(lambda: is_balanced(self.configured, [worker.runs for worker in workers]))

    async def close(self) -> None:
        await asyncio.gather(*(worker.member.close() for worker in self.workers))


class RecordingWorker:
    """Records its assignment, and notices when two workers run the same."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        bootstrap_servers: str,
        *,
        protocol: ConnectProtocol = ConnectProtocol.SESSIONED,
        rebalance_timeout_ms: int = 20_000,
        client: ClientConfig | None = None,
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.config_offset = 1
        self.configured = lambda: cluster.configured
        self.runs: Work = frozenset()
        self.memberships: list[Membership] = []
        self.lost: list[str] = []
        self.failures: list[Exception] = []
        self.revocations: list[Work] = []
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        self.assignor = LeaderAssignor(self._snapshot, max_delay_ms=cluster.max_delay_ms)
        self.member = GroupMember(
            client or ClientConfig(bootstrap_servers=(bootstrap_servers,), client_id=name, retry_backoff_max_ms=200),
            GroupSettings(
                group_id=cluster.group_id,
                url=f"http://{name}:8083/",
                protocol=protocol,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=200,
                rebalance_timeout_ms=rebalance_timeout_ms,
            ),
            config_offset=lambda: self.config_offset,
            assign=self.assignor,
            listener=self,
            observer=GroupMetrics(),
            loop=asyncio.get_running_loop(),
        )

    def _snapshot(self) -> ConfiguredWork:
        return self.configured()

    @property
    def leads(self) -> bool:
        return bool(self.memberships) and self.memberships[-1].leader

    async def on_revoked(self, connectors: tuple[str, ...], tasks: tuple[ConnectorTaskId, ...]) -> None:
        revoked = units(connectors, tasks)
        self.revocations.append(revoked)
        await self.may_stop.wait()
        self.runs -= revoked

    def on_assigned(self, membership: Membership) -> None:
        self.memberships.append(membership)
        assigned = units(membership.assignment.connectors, membership.assignment.tasks)
        for other in self.cluster.workers:
            if other is not self:
                self.cluster.run_twice.extend(other.runs & (assigned - self.runs))
        self.runs = assigned

    async def on_lost(self, reason: str) -> None:
        self.lost.append(reason)
        self.runs = frozenset()

    def on_failed(self, error: Exception) -> None:
        self.failures.append(error)


def units(connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> Work:
    return frozenset(connectors) | frozenset(tasks)


def is_balanced(configured: ConfiguredWork, shares: list[Work]) -> bool:
    """Whether the shares cover the configuration without overlap, and differ by at most one of each kind."""
    expected = len(configured.task_counts) + sum(configured.task_counts.values())
    together = frozenset[Unit]().union(*shares)
    connectors = [sum(isinstance(unit, str) for unit in share) for share in shares]
    tasks = [len(share) - count for share, count in zip(shares, connectors, strict=True)]
    even = max(connectors) - min(connectors) <= 1 and max(tasks) - min(tasks) <= 1
    return even and len(together) == expected == sum(map(len, shares))


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for a condition. Raises TimeoutError."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            raise TimeoutError("the condition was not met in time")
        await asyncio.sleep(0.02)
