"""A worker of a group that has not reached its brokers yet."""

from __future__ import annotations

import asyncio
import socket

import pytest

from fencepost.config.group_config import GroupConfig
from fencepost.herder.distributed.herder import DistributedHerder
from fencepost.herder.errors import ServiceUnavailableError
from fencepost.herder.peers.rest_client import RestClient
from fencepost.runtime.worker import Worker
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
    """Tools ask for the root first: they must not wait for brokers."""
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
