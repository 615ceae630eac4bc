"""A distributed worker that has not reached its brokers yet."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import Future

import pytest

from fencepost.config.group_config import GroupConfig
from fencepost.herder.distributed import herder as module
from fencepost.herder.distributed.herder import DistributedHerder
from fencepost.herder.errors import ServiceUnavailableError
from fencepost.herder.peers.rest_client import RestClient
from fencepost.kafka.errors import BrokerUnavailableError
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.topic import ConfigBackingStore
from fencepost.storage.statuses.topic import StatusBackingStore
from tests.support.model_herder import model_worker_config
from tests.support.rest import RestApis


async def _is_told_when_the_worker_stops(herder: DistributedHerder) -> None:
    waiting = asyncio.ensure_future(herder.connectors.names())
    await asyncio.sleep(0)
    assert not waiting.done()
    herder.refuse_requests()
    with pytest.raises(ServiceUnavailableError, match="stops"):
        await waiting


def test_a_worker_whose_brokers_do_not_answer_says_so_at_once():
    """Tools send GET / first, which must be answered without brokers."""
    with socket.create_server(("127.0.0.1", 0)) as silent, RestApis() as apis:
        brokers = f"127.0.0.1:{silent.getsockname()[1]}"
        config = model_worker_config(bootstrap_servers=brokers)

        async def make() -> DistributedHerder:
            group = GroupConfig.from_properties(config.properties, where="a test")
            return DistributedHerder(Worker(config), group, "http://127.0.0.1:1", RestClient())

        herder = apis.call(make())
        api = apis.serve(herder)
        for path in ("/", "/health"):
            answer = api.get(path)
            assert answer.status == 503
            assert "has yet to reach the brokers" in answer.body["message"]
        apis.call(_is_told_when_the_worker_stops(herder))
        apis.call(herder.stop())


def test_a_failed_start_waits_for_nothing_that_fails_when_the_stores_close(monkeypatch: pytest.MonkeyPatch):
    """Otherwise asyncio would log the read's failure as an exception that was never retrieved."""
    configs: Future[None] = Future()
    statuses: Future[None] = Future()
    monkeypatch.setattr(module, "cluster_id", lambda *_: "a cluster")
    monkeypatch.setattr(Worker, "start", lambda _: None)
    monkeypatch.setattr(ConfigBackingStore, "start", lambda *_: configs)
    monkeypatch.setattr(StatusBackingStore, "start", lambda *_: statuses)
    forgotten: list[object] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: forgotten.append(context))
        config = model_worker_config()
        group = GroupConfig.from_properties(config.properties, where="a test")
        herder = DistributedHerder(Worker(config), group, "http://127.0.0.1:1", RestClient())
        configs.set_exception(BrokerUnavailableError("the broker is away"))
        with pytest.raises(BrokerUnavailableError):
            await herder.start()
        await asyncio.sleep(0)
        assert statuses.cancelled()
        await herder.stop()

    asyncio.run(scenario())
    assert forgotten == []
