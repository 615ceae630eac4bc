"""Requests of other workers of the group, which are signed with its session key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.herder.core.transaction_info import TaskTransactionInfo
from fencepost.herder.distributed.leadership import Leadership
from fencepost.herder.distributed.task_configs import TaskConfigs
from fencepost.herder.distributed.transaction_requests import GroupTransactions
from fencepost.herder.interface import PeerRequests
from fencepost.herder.peers.request_signing import SignedRequest
from fencepost.herder.work.fencing_round import FencingRounds


class GroupRequests(PeerRequests):
    """Checks signatures, and processes the requests."""

    def __init__(
        self,
        leadership: Leadership,
        rounds: FencingRounds,
        transactions: GroupTransactions,
        task_configs: TaskConfigs,
    ) -> None:
        self._leadership = leadership
        self._rounds = rounds
        self._transactions = transactions
        self._task_configs = task_configs

    async def fence(self, name: str, request: SignedRequest) -> None:
        """Fence former generations of a connector's tasks."""
        self._leadership.verify(request)
        await self._rounds.lead(name)

    async def transactions(self, name: str, request: SignedRequest) -> Sequence[TaskTransactionInfo]:
        """Return the transactions of a connector's tasks on this worker."""
        self._leadership.verify(request)
        return self._transactions.here(name)

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], request: SignedRequest) -> None:
        """Store task configurations from another worker's connector."""
        self._leadership.verify(request)
        await self._task_configs.store(name, configs)
