"""Requests to workers, and between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.api.errors import FencepostError
from fencepost.herder import errors
from fencepost.herder.distributed.herder import DistributedHerder
from fencepost.herder.peers.request_signing import SignedRequest, signed_headers
from fencepost.herder.peers.rest_client import Signer
from tests.sim.clients import Site
from tests.sim.threads import SimTime

Request = Callable[[DistributedHerder], Any]


class SimRest:
    """Requests to workers by their URLs, with the forwarding that the REST layer does."""

    _HOPS = 2

    def __init__(self, site: Site, herders: Mapping[str, tuple[Site, DistributedHerder]]) -> None:
        self._site = site
        self._herders = herders

    async def fence_zombie_source_tasks(self, url: str, connector: str, signer: Signer | None) -> None:
        signed = self._signed("PUT", f"/connectors/{connector}/fence", signer)
        await self.send(url, lambda herder: herder.peers.fence(connector, signed), hops=1)

    async def put_task_configs(
        self, url: str, connector: str, configs: Sequence[Mapping[str, str]], signer: Signer | None
    ) -> None:
        signed = self._signed("POST", f"/connectors/{connector}/tasks", signer)
        await self.send(url, lambda herder: herder.peers.put_task_configs(connector, configs, signed), hops=1)

    async def send(self, url: str, request: Request, hops: int = 0) -> Any:
        """Send a request to a worker. Raises the error that it answers."""
        answer = await self._site.network.ask_async(lambda reply: self._arrive(url, request, hops, reply), timeout=90.0)
        if answer is None:
            raise errors.RequestFailedError(f"The worker at {url} did not answer")
        ok, result = answer
        if not ok:
            raise result
        return result

    def _signed(self, method: str, path: str, signer: Signer | None) -> SignedRequest:
        now_ms = SimTime(self._site.kernel).time_ns() // 1_000_000
        headers = (
            {} if signer is None else signed_headers(method, path, b"", signer.key, signer.algorithm, now_ms=now_ms)
        )
        return SignedRequest.of(method, path, b"", headers)

    def _arrive(self, url: str, request: Request, hops: int, reply: Callable[[Any], None]) -> None:
        site, herder = self._herders[url]
        if not site.process.alive:
            reply((False, errors.RequestFailedError(f"The worker at {url} cannot be reached")))
            return

        async def handle() -> None:
            reply(await self._handled(site, herder, request, hops))

        site.kernel.later(0.0, lambda: _ignore(site.process.loop.create_task(handle())), site.process)

    async def _handled(self, site: Site, herder: DistributedHerder, request: Request, hops: int) -> tuple[bool, Any]:
        try:
            return True, await request(herder)
        except errors.RequestTargetError as elsewhere:
            if elsewhere.forward_url is None or hops >= self._HOPS:
                return False, errors.RebalanceNeededError(str(elsewhere))
            try:
                client = SimRest(site, self._herders)
                return True, await client.send(elsewhere.forward_url, request, hops + 1)
            except FencepostError as error:
                return False, error
        except FencepostError as error:
            known = (
                errors.BadRequestError,
                errors.ForbiddenError,
                errors.NotFoundError,
                errors.ConflictError,
                errors.ServiceUnavailableError,
            )
            return False, error if isinstance(error, known) else errors.RequestFailedError(str(error))


def _ignore(_: Any) -> None:
    pass
