"""A running task survives faults of brokers, connections and Spark workers: no record is lost or doubled."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.runtime.state import State
from tests.support.checker import read_offsets, read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy, Link
from tests.support.processes import wait_for
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, stop
from tests.support.topics import Topics, unique

# Short timeouts, so that a fault outlasts the producer's own retries and the task has to restart.
HASTY = {
    "producer.request.timeout.ms": "300",
    "producer.delivery.timeout.ms": "800",
    "producer.max.block.ms": "1500",
    "consumer.request.timeout.ms": "1000",
}
# A request times out as soon, but there is enough time to retry it on a busy machine.
STUBBORN = {"producer.request.timeout.ms": "300"}
BATCH = 50


@pytest.fixture
def hasty(fault_proxy: FaultProxy) -> Iterator[TaskRunner]:
    """A worker behind the proxy with short timeouts."""
    with TaskRunner(fault_proxy.address, HASTY) as runner:
        yield runner


@pytest.fixture
def stubborn(fault_proxy: FaultProxy) -> Iterator[TaskRunner]:
    """A worker behind the proxy with a short request timeout, but with time for retries."""
    with TaskRunner(fault_proxy.address, STUBBORN) as runner:
        yield runner


def _assert_exactly_once(bootstrap_servers: str, runner: TaskRunner, topic: str, name: str) -> None:
    found = seqs(values(read_topic(bootstrap_servers, topic)), name)
    assert found == list(range(1, len(found) + 1))
    offsets = read_offsets(bootstrap_servers, runner.offsets_topic, name)
    assert offsets == [({"task.id": f"{name}-0"}, {"saved": len(found)})]


@pytest.mark.parametrize("arrives", [True, False], ids=["the answer is lost", "the request is lost"])
def test_the_outcome_of_an_unknown_commit_is_read_from_the_offsets(
    hasty: TaskRunner, fault_proxy: FaultProxy, broker: EmbeddedBroker, topic: str, arrives: bool
):
    name = unique("connector")
    task, seen = hasty.started(name, topic, {"messages.per.poll": BATCH})
    wait_for(lambda: len(seen.committed) >= 10 * BATCH)
    trap = (
        fault_proxy.on_response(ApiKey.END_TXN, Act.HOLD)
        if arrives
        else fault_proxy.on_request(ApiKey.END_TXN, Act.HOLD)
    )
    trap.wait()
    fault_proxy.refuse()
    wait_for(lambda: State.RESTARTING in hasty.states.of(task), what="the task to start again")
    fault_proxy.heal()
    committed = len(seen.committed)
    wait_for(lambda: len(seen.committed) >= committed + 10 * BATCH)
    stop(task)
    assert seen.starts >= 2
    _assert_exactly_once(broker.bootstrap_servers, hasty, topic, name)


@pytest.mark.parametrize(
    "fault",
    [*product((ApiKey.PRODUCE, ApiKey.END_TXN), (Act.RESET, Act.DROP))],
    ids=lambda fault: f"{fault[0].name}-{fault[1].value}",
)
def test_single_lost_requests_and_answers_are_retried_silently(
    stubborn: TaskRunner, fault_proxy: FaultProxy, broker: EmbeddedBroker, topic: str, fault: tuple[ApiKey, Act]
):
    """The producer retries within the same transaction."""
    api_key, act = fault
    name = unique("connector")
    task, seen = stubborn.started(name, topic, {"messages.per.poll": BATCH})
    for set_trap in (fault_proxy.on_request, fault_proxy.on_response):
        trap = set_trap(api_key, act, skip=random.randint(0, 5))
        trap.wait()
        committed = len(seen.committed)
        wait_for(lambda committed=committed: len(seen.committed) >= committed + 5 * BATCH)
    stop(task)
    assert stubborn.states.of(task) == [State.RUNNING, State.STOPPED]
    _assert_exactly_once(broker.bootstrap_servers, stubborn, topic, name)


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_a_network_that_is_cut_for_longer_than_the_producers_patience_is_survived(
    hasty: TaskRunner, fault_proxy: FaultProxy, broker: EmbeddedBroker, topic: str, boundary: str
):
    name = unique("connector")
    config = {
        "messages.per.poll": BATCH,
        "transaction.boundary": boundary,
        "transaction.boundary.interval.ms": 100,
    }
    task, seen = hasty.started(name, topic, config)
    wait_for(lambda: len(seen.committed) >= 10 * BATCH)
    fault_proxy.to_client = Link.DROP
    wait_for(lambda: State.RESTARTING in hasty.states.of(task), what="the task to start again")
    fault_proxy.heal()
    fault_proxy.reset()
    committed = len(seen.committed)
    wait_for(lambda: len(seen.committed) >= committed + 10 * BATCH)
    stop(task)
    _assert_exactly_once(broker.bootstrap_servers, hasty, topic, name)


def test_a_broker_that_restarts_in_mid_transaction_is_survived(tmp_path: Path):
    name = unique("connector")
    with EmbeddedBroker(tmp_path / "broker") as broker:
        topic = Topics(broker.bootstrap_servers).create(partitions=2)
        with TaskRunner(broker.bootstrap_servers) as runner:
            config = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": 300}
            task, seen = runner.started(name, topic, {"messages.per.poll": BATCH, **config})
            wait_for(lambda: seen.commits >= 2)
            broker.nodes[0].restart()
            commits = seen.commits
            wait_for(lambda: seen.commits >= commits + 2)
            stop(task)
            found = seqs(values(read_topic(broker.bootstrap_servers, topic)), name)
            assert sorted(found) == list(range(1, len(found) + 1))
            offsets = read_offsets(broker.bootstrap_servers, runner.offsets_topic, name)
            assert offsets == [({"task.id": f"{name}-0"}, {"saved": len(found)})]


def test_a_failed_task_leaves_no_transaction_open(broker: EmbeddedBroker, topic: str):
    """Readers with read_committed are not held up until the transaction times out."""
    name = unique("connector")
    with TaskRunner(broker.bootstrap_servers) as runner:
        task, seen = runner.task(name, topic, {"transaction.boundary": "interval"})
        failing = threading.Event()

        def fail(_: object, records: list[object]) -> list[object]:
            if seen.polls == 3:
                failing.set()
                raise RuntimeError("the source is gone")
            return records

        seen.on_poll = fail  # any records do
        task.start()
        assert failing.wait(120)
        assert task.join(120)
    where = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def end() -> int:
        return int(admin.list_offsets({where: OffsetSpec.latest()})[where].result(120).offset)

    # The coordinator answers before the leaders have written the transaction markers.
    wait_for(lambda: end() > 2 * 100, what="the abort marker behind two batches")
    assert end() == 2 * 100 + 1
