"""The session key of a group of workers, which the leader writes and renews, on a real broker."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from fencepost.config.rest_config import RestConfig
from fencepost.herder.errors import ForbiddenError
from fencepost.rest.server import RestServer
from fencepost.storage.configs.codec import SessionKey
from tests.support.checker import read_topic
from tests.support.fault_proxy import ApiKey, FaultProxy, Link
from tests.support.group import until
from tests.support.member import Member, in_group
from tests.support.model_herder import SESSION_KEY, ModelHerder
from tests.support.sequence_source import properties
from tests.support.topics import unique

FORMER_KEY = SessionKey(b"of a while ago", "HmacSHA256", 1)
KEY = SessionKey(SESSION_KEY, "HmacSHA256", 2)


def keys_of(member: Member, bootstrap_servers: str) -> int:
    """The number of session keys that were written."""
    records = read_topic(bootstrap_servers, member.config.config_storage.name)
    return sum(record.key == b"session-key" for record in records)


def test_a_leader_writes_a_session_key_and_the_next_one_keeps_it(bootstrap_servers: str) -> None:

    async def scenario(former: Member, leader: Member) -> None:
        await former.lead()
        await until(lambda: former.configs.state.session_key is not None)
        key = former.configs.state.session_key
        assert key is not None
        assert (len(key.key), key.algorithm) == (48, "HmacSHA384")

        await leader.lead()

        # The leader writes in order, so it has checked the key's age before this write.
        await leader.write(lambda: leader.configs.put_task_count("connector", 1))
        assert leader.configs.state.session_key == key
        assert keys_of(leader, bootstrap_servers) == 1

    algorithms = {f"inter_worker_{use}": "HmacSHA384" for use in ("key_generation_algorithm", "signature_algorithm")}
    in_group(
        bootstrap_servers,
        bootstrap_servers,
        scenario=scenario,
        inter_worker_key_size="48",
        inter_worker_verification_algorithms="HmacSHA384",
        **algorithms,
    )


def test_a_leader_renews_the_session_key_repeatedly(bootstrap_servers: str) -> None:
    """This includes a key that the leader finds when it becomes the leader."""

    async def scenario(leader: Member, follower: Member) -> None:
        await leader.lead()
        await until(lambda: keys_of(leader, bootstrap_servers) >= 2)
        await until(lambda: follower.configs.state.session_key is not None)
        former = follower.configs.state.session_key
        leader.follow("http://127.0.0.1:1")
        await follower.lead()
        await until(lambda: follower.configs.state.session_key != former)

    in_group(bootstrap_servers, bootstrap_servers, scenario=scenario, inter_worker_key_ttl_ms="100")


def test_a_request_signed_during_a_key_renewal_is_signed_again(
    bootstrap_servers: str, topic: str, fault_proxy: FaultProxy
) -> None:
    async def scenario(leader: Member, follower: Member) -> None:
        await leader.lead()
        await leader.write(lambda: leader.configs.put_session_key(FORMER_KEY))
        await follower.parts.read_config_topic()
        herder, name = ModelHerder(), unique("connector")
        await herder.connectors.put(name, properties(name, topic), allow_replace=False)
        server = RestServer(RestConfig.from_properties({"listeners": "http://127.0.0.1:0"}, where="a test"))
        await server.start(herder, CollectorRegistry())
        follower.follow(server.advertised_url)

        def fence() -> asyncio.Future[None]:
            client, url = follower.rest_client, server.advertised_url
            request = follower.leadership.signed(lambda signer: client.fence_zombie_source_tasks(url, name, signer))
            return asyncio.ensure_future(request)

        try:
            with pytest.raises(ForbiddenError):
                await fence()
            fault_proxy.to_client = Link.HOLD
            await leader.write(lambda: leader.configs.put_session_key(KEY))
            asked = fault_proxy.requests[ApiKey.METADATA]
            fencing = fence()
            await until(lambda: fault_proxy.requests[ApiKey.METADATA] > asked or fencing.done())
            fault_proxy.heal()
            await fencing
            assert herder.fenced == [name]
        finally:
            await server.stop()

    in_group(bootstrap_servers, fault_proxy.address, scenario=scenario, inter_worker_key_ttl_ms="2147483647")
