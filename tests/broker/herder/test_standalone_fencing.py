"""A standalone worker fences earlier tasks of its connectors, also tasks of other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaException

from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.errors import OvertakenError
from fencepost.herder.work.start_checks import FencingChecks
from fencepost.storage.configs.task_count import leader_transactional_id, task_transactional_id
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.confluent import transactional_producer
from tests.support.processes import wait_for
from tests.support.sequence_source import SEEN, SequenceConnector, properties, seqs
from tests.support.standalone import (
    ConnectorsFailed,
    FencingProcess,
    StandaloneWorker,
    running,
)
from tests.support.topics import unique


class ResizingConnector(SequenceConnector):
    """Starts with one task, and has `wanted` tasks after a reconfiguration."""

    latest: ResizingConnector
    wanted = 1

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        ResizingConnector.latest = self

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return super().task_configs(max_tasks)[: self.wanted]


def task_counts(config: WorkerConfig) -> list[tuple[bytes | None, bytes | None]]:
    records = read_topic(config.bootstrap_servers, config.config_storage.name)
    return [(record.key, record.value) for record in records]


class Stranger:
    """Another producer that owns a transactional id, with an open transaction."""

    def __init__(self, bootstrap_servers: str, topic: str, transactional_id: str) -> None:
        self._producer = transactional_producer(bootstrap_servers, transactional_id, transaction_timeout_ms=600_000)
        self._producer.begin_transaction()
        self._producer.produce(topic, b"of a stranger", key=b"of a stranger")
        self._producer.flush(30)

    def is_fenced(self) -> bool:
        try:
            self._producer.commit_transaction(30)
        except KafkaException:
            return True
        return False


def test_a_second_instance_of_a_connector_fences_the_first(config: WorkerConfig, topic: str) -> None:
    name = unique("connector")
    connector = properties(name, topic, {"messages.per.poll": 2})
    with running(StandaloneWorker(config, connector)) as first:
        wait_for(lambda: SEEN[name].committed or first, what="the first instance commits")
        with running(StandaloneWorker(config, connector)) as second:
            wait_for(lambda: first, what="the first instance ends")
            committed = len(read_topic(config.bootstrap_servers, topic))
            wait_for(lambda: len(read_topic(config.bootstrap_servers, topic)) > committed, what="the second goes on")
        assert not second

    assert isinstance(first[0], ConnectorsFailed)
    assert f"Task {name}-0 failed" in str(first[0])
    assert "fenced" in str(first[0]).lower()
    found = seqs(values(read_topic(config.bootstrap_servers, topic)), name)
    assert_exactly_once(found, range(1, max(found) + 1))


def test_a_changed_number_of_tasks_fences_every_earlier_task(config: WorkerConfig, topic: str) -> None:
    name = unique("connector")
    connector = properties(name, topic, {"tasks.max": 3}) | {
        "connector.class": f"{ResizingConnector.__module__}.{ResizingConnector.__name__}"
    }
    ResizingConnector.wanted = 1
    with running(StandaloneWorker(config, connector)) as failures:
        wait_for(lambda: SEEN[name].starts == 1 or failures, what="a task starts")
        ResizingConnector.wanted = 3
        ResizingConnector.latest.context.request_task_reconfiguration()
        wait_for(lambda: SEEN[name].starts == 1 + 3 or failures, what="3 tasks start")
        ResizingConnector.wanted = 2
        ResizingConnector.latest.context.request_task_reconfiguration()
        wait_for(lambda: SEEN[name].starts == 1 + 3 + 2 or failures, what="2 tasks start")
    assert not failures

    key = f"tasks-fencing-{name}".encode()
    assert task_counts(config) == [(key, b'{"task-count":%d}' % count) for count in (1, 3, 2)]
    found = values(read_topic(config.bootstrap_servers, topic))
    for task in range(3):
        done = seqs(found, name, task)
        assert_exactly_once(done, range(1, max(done, default=0) + 1))


@pytest.mark.parametrize(("former", "tasks"), [(3, 5), (5, 1), (1, 2), (2, 2), (1, 0)])
def test_each_generation_is_fenced_before_the_next(
    config: WorkerConfig, topic: str, group: str, former: int, tasks: int
) -> None:
    connector = properties(unique("connector"), topic)

    async def scenario() -> None:
        async with FencingProcess(config) as first, FencingProcess(config) as second:
            await first.advance(connector, former)
            ids = [task_transactional_id(group, connector["name"], task) for task in range(former)]
            strangers = [Stranger(config.bootstrap_servers, topic, transactional_id) for transactional_id in ids]

            await second.advance(connector, tasks)

            assert all(stranger.is_fenced() for stranger in strangers)

    asyncio.run(scenario())
    assert task_counts(config)[-1][1] == b'{"task-count":%d}' % tasks


@pytest.mark.parametrize("former", [None, 1])
def test_one_task_after_one_or_none_needs_no_fencing(
    config: WorkerConfig, topic: str, group: str, former: int | None
) -> None:
    connector = properties(unique("connector"), topic)

    async def scenario() -> None:
        async with FencingProcess(config) as process:
            if former is not None:
                await process.advance(connector, former)
            stranger = Stranger(config.bootstrap_servers, topic, task_transactional_id(group, connector["name"], 0))

            await process.advance(connector, 1)

            assert not stranger.is_fenced()

    asyncio.run(scenario())


def test_one_task_that_delivers_at_least_once_follows_one_that_is_fenced(
    config: WorkerConfig, topic: str, group: str
) -> None:
    name = unique("connector")
    exactly_once, at_least_once = (
        properties(name, topic, {"exactly.once.support": support}) for support in ("required", "disabled")
    )

    async def scenario() -> None:
        async with FencingProcess(config) as process:
            await process.advance(exactly_once, 1)
            stranger = Stranger(config.bootstrap_servers, topic, task_transactional_id(group, name, 0))

            await process.advance(at_least_once, 1)

            assert stranger.is_fenced()

    asyncio.run(scenario())
    assert task_counts(config)[-1][1] == b'{"task-count":0}'


def test_a_round_fences_all_other_writers_of_counts(config: WorkerConfig, topic: str, group: str) -> None:
    async def scenario() -> None:
        async with FencingProcess(config) as process:
            other = Stranger(config.bootstrap_servers, topic, leader_transactional_id(group))

            await process.advance(properties(unique("connector"), topic), 1)

            assert other.is_fenced()

    asyncio.run(scenario())


def test_a_start_does_not_wait_for_the_open_transaction_of_a_killed_process(
    config: WorkerConfig, topic: str, group: str
) -> None:
    """The process may have been killed while it wrote a task count record."""
    name = unique("connector")
    StandaloneWorker(config, properties(name, topic, {"limit": 10}), once=True).run()
    killed = Stranger(config.bootstrap_servers, config.config_storage.name, leader_transactional_id(group))

    StandaloneWorker(config, properties(name, topic, {"limit": 20}), once=True).run()

    assert killed.is_fenced()
    assert_exactly_once(seqs(values(read_topic(config.bootstrap_servers, topic)), name), range(1, 21))


def test_tasks_of_a_process_that_was_overtaken_do_not_start(config: WorkerConfig, topic: str) -> None:
    """The process was suspended between its fencing round and the start of its task."""
    connector = properties(unique("connector"), topic)
    task = ConnectorTaskId(connector["name"], 0)

    async def scenario() -> None:
        async with FencingProcess(config) as held_up, FencingProcess(config) as newer:
            await held_up.advance(connector, 1)
            late, current = (FencingChecks(each.parts, each.fencing, lambda: True) for each in (held_up, newer))
            await asyncio.to_thread(late.after_ownership, task)

            newer.configure(connector, 1)
            await asyncio.to_thread(current.before_ownership, task)
            await asyncio.to_thread(current.after_ownership, task)

            for check in late.before_ownership, late.after_ownership:
                with pytest.raises(OvertakenError):
                    await asyncio.to_thread(check, task)

    asyncio.run(scenario())
    assert len(task_counts(config)) == 2


def test_a_fencing_round_that_another_process_overtakes_starts_again(config: WorkerConfig, topic: str) -> None:
    connector = properties(unique("connector"), topic)

    async def scenario() -> None:
        async with FencingProcess(config) as process, FencingProcess(config) as other:
            counts, overtakes = process.parts.task_counts, [True, True]
            claim = counts.claim_write_privilege

            def overtaken() -> Future[None]:
                claimed = claim()
                if overtakes:
                    overtakes.pop()
                    claimed.result(60)
                    other.parts.task_counts.claim_write_privilege().result(60)
                return claimed

            counts.claim_write_privilege = overtaken  # type: ignore[method-assign]
            await process.advance(connector, 2)
            assert not overtakes
            assert not process.parts.fencing_is_due(connector["name"])

    asyncio.run(scenario())
    assert [value for _, value in task_counts(config)] == [b'{"task-count":2}']


def test_rounds_of_one_process_come_one_after_the_other(config: WorkerConfig, topic: str) -> None:
    """A round claims the write privilege and then writes a count.

    Rounds of one process must not mix these two steps.
    """
    connectors = [properties(unique("connector"), topic) for _ in range(2)]

    async def scenario() -> None:
        async with FencingProcess(config) as process:
            counts, steps = process.parts.task_counts, []
            claim, put = counts.claim_write_privilege, counts.put_task_count

            def claimed() -> Future[None]:
                steps.append("claim")
                return claim()

            def written(connector: str, tasks: int) -> Future[int | None]:
                steps.append("write")
                return put(connector, tasks)

            counts.claim_write_privilege = claimed  # type: ignore[method-assign]
            counts.put_task_count = written  # type: ignore[method-assign]
            await asyncio.gather(*(process.advance(connector, 2) for connector in connectors))
            assert steps == ["claim", "write"] * 2

    asyncio.run(scenario())
