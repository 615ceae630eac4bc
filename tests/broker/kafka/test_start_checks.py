"""A worker's checks before one of its tasks may write, each check alone and on a real broker."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry

from fencepost.api.errors import FencepostError
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.rest_config import RestConfig
from fencepost.herder.errors import FencingRoundError, MissingRightError, SupersededError
from fencepost.herder.work.start_checks import FencingChecks
from fencepost.kafka.errors import AuthorizationError, ProducerFencedError
from fencepost.rest.server import RestServer
from fencepost.storage.configs.codec import SessionKey
from tests.support.checker import read_topic, values
from tests.support.fault_proxy import ApiKey, FaultProxy, Link
from tests.support.group import until
from tests.support.member import Member, in_group
from tests.support.model_herder import SESSION_KEY, ModelHerder
from tests.support.sequence_source import properties
from tests.support.topics import unique
from tests.support.writing import open_producer, producer_config, write_in_transaction

ZOMBIE = b"of a task that was believed dead"


async def configure(leader: Member, name: str, topic: str, tasks: int) -> None:
    """Write the configurations of a connector and of its tasks."""
    config = properties(name, topic)
    await leader.write(lambda: leader.configs.put_connector(name, config))
    await leader.write(lambda: leader.configs.put_task_configs(name, [config] * tasks))


def test_a_round_fences_all_earlier_tasks_and_records_how_many_may_start(bootstrap_servers: str, topic: str) -> None:
    """The connector has three tasks, and then one."""

    async def scenario(leader: Member) -> None:
        await leader.lead()
        name = unique("connector")
        await configure(leader, name, topic, tasks=3)
        await leader.fencing.fence(name)
        assert leader.configs.state.task_count_record(name) == 3
        with ExitStack() as stack:
            ids = [f"{leader.config.group_id}-{name}-{task}" for task in range(3)]
            zombies = [stack.enter_context(open_producer(producer_config(bootstrap_servers), id_)) for id_ in ids]
            for zombie in zombies:
                zombie.begin_transaction()
                write_in_transaction(zombie, topic, [ZOMBIE])
            await configure(leader, name, topic, tasks=1)
            assert leader.configs.state.pending_fencing(name)

            await leader.fencing.fence(name)

            assert not leader.configs.state.pending_fencing(name)
            assert leader.configs.state.task_count_record(name) == 1
            for zombie in zombies:
                with pytest.raises(ProducerFencedError):
                    zombie.commit_transaction()

    in_group(bootstrap_servers, scenario=scenario)
    assert values(read_topic(bootstrap_servers, topic)) == []


@pytest.mark.parametrize(
    ("refusal", "error", "said"),
    [
        (None, FencingRoundError, "no task count record after the connector's latest task configurations"),
        (
            AuthorizationError("TransactionalId g-c-0", "WRITE"),
            MissingRightError,
            "lacks WRITE on TransactionalId g-c-0",
        ),
    ],
    ids=["the leader has recorded nothing", "the leader lacks a right, which no retry mends"],
)
def test_a_task_beyond_the_task_count_does_not_start(
    bootstrap_servers: str, topic: str, refusal: FencepostError | None, error: type[FencepostError], said: str
) -> None:

    async def scenario(leader: Member, follower: Member) -> None:
        await leader.lead()
        name = unique("connector")
        await leader.write(lambda: leader.configs.put_session_key(SessionKey(SESSION_KEY, "HmacSHA256", 1)))
        await configure(leader, name, topic, tasks=2)
        await follower.parts.read_config_topic()
        herder = ModelHerder()
        await herder.connectors.put(name, properties(name, topic), allow_replace=False)
        herder.refusal = refusal
        server = RestServer(RestConfig.from_properties({"listeners": "http://127.0.0.1:0"}, where="a test"))
        await server.start(herder, CollectorRegistry())
        follower.follow(server.advertised_url)
        checks = FencingChecks(follower.parts, follower.fencing, lambda: True)
        try:
            with pytest.raises(error, match=said):
                await asyncio.to_thread(checks.before_ownership, ConnectorTaskId(name, 0))
        finally:
            await server.stop()

    in_group(bootstrap_servers, bootstrap_servers, scenario=scenario)


def test_a_task_with_its_transactional_id_does_not_start_on_outdated_task_configs(
    bootstrap_servers: str, topic: str, fault_proxy: FaultProxy
) -> None:
    """The worker has not read the new configurations when its task gets its transactional id."""

    async def scenario(leader: Member, lagging: Member) -> None:
        await leader.lead()
        name = unique("connector")
        await configure(leader, name, topic, tasks=2)
        await lagging.parts.read_config_topic()

        def generation() -> int | None:
            return lagging.configs.state.task_config_generation(name)

        started_as = generation()
        checks = FencingChecks(lagging.parts, lagging.fencing, lambda: generation() == started_as)
        fault_proxy.to_client = Link.HOLD
        await configure(leader, name, topic, tasks=2)
        # The reader finds the partitions before it lists their end offsets.
        asked = fault_proxy.requests[ApiKey.METADATA]
        check = asyncio.create_task(asyncio.to_thread(checks.after_ownership, ConnectorTaskId(name, 0)))
        await until(lambda: fault_proxy.requests[ApiKey.METADATA] > asked or check.done())
        fault_proxy.heal()
        with pytest.raises(SupersededError, match=f"Task {name}-0 does not start: the connector has newer task"):
            await check

    in_group(bootstrap_servers, fault_proxy.address, scenario=scenario)
