"""A connector's offsets topic changes: another topic and back, more partitions, deleted and created again."""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from fencepost.kafka.producer.partitioner import partition_for_keys
from fencepost.runtime.connector_offsets import reset_offsets
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore
from fencepost.storage.offsets.overlay import CommittedOffset
from tests.support.checker import read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.sequence_source import properties, seqs
from tests.support.task_runner import TaskRunner
from tests.support.topics import Topics, unique

_SECONDS = 60


@pytest.fixture
def own() -> str:
    """The name of a connector's own offsets topic."""
    return unique("own-offsets")


def _run(runner: TaskRunner, name: str, topic: str, limit: int, own: str | None = None, **more: str) -> None:
    """Run a connector until this many records are written; `own` is its own offsets topic."""
    config = {"limit": limit, **({"offsets.storage.topic": own} if own else {})}
    task, _ = runner.started(
        name, topic, config | {key.replace("_", "."): value for key, value in more.items()}, stop_at_end=True
    )
    assert task.join(_SECONDS), task.error
    assert task.error is None


def _written(bootstrap_servers: str, topic: str, name: str) -> list[int]:
    return seqs(values(read_topic(bootstrap_servers, topic)), name)


def test_nothing_is_read_twice_if_an_own_topic_is_removed_and_used_again(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, own: str
):
    """The newest committed offset counts, whichever topic has it."""
    other = unique("other-offsets")
    for number, storage in enumerate([own, None, own, None, own, other, own, None, other], 1):
        _run(runner, name, topic, 100 * number, storage)
    assert _written(bootstrap_servers, topic, name) == list(range(1, 901))


def test_nothing_is_read_twice_if_an_own_topic_is_removed_while_copies_fail(
    fault_proxy: FaultProxy, bootstrap_servers: str, topic: str, name: str, own: str
):
    """An offset that was not copied is read from the topic in which it was committed."""
    direct = {"producer_override_bootstrap_servers": bootstrap_servers}
    retrying = {"producer.delivery.timeout.ms": "1000", "producer.request.timeout.ms": "1000"}
    group = unique("group")
    with TaskRunner(fault_proxy.address, retrying, group=group) as runner:
        _run(runner, name, topic, 100, own, **direct)
        for _ in range(50):
            fault_proxy.on_request(ApiKey.PRODUCE, Act.DROP)
        _run(runner, name, topic, 200, own, **direct)
        _run(runner, name, topic, 300, **direct)
    with TaskRunner(bootstrap_servers, group=group) as runner:
        _run(runner, name, topic, 400)
        _run(runner, name, topic, 500, own)
    assert _written(bootstrap_servers, topic, name) == list(range(1, 501))


def _named(before: int, now: int) -> str:
    """A connector name whose offset key hashes to partition `before` of two, and to partition `now` of five."""
    while True:
        name = unique("connector")
        key = pa.array([f'["{name}",{{"task.id":"{name}-0"}}]'])
        if [int(partition_for_keys(key, partitions)[0]) for partitions in (2, 5)] == [before, now]:
            return name


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("now", [0, 3])
def test_an_offsets_topic_that_grows_has_nothing_read_twice(
    runner: TaskRunner, topics: Topics, topic: str, own: str, now: int, *, is_own: bool
):
    """A worker that knew the old partitions takes turns with new workers, which write to the new partitions."""
    name, storage, group = _named(1, now), own if is_own else None, runner.worker.config.group_id
    bootstrap_servers = runner.worker.config.bootstrap_servers
    _run(runner, name, topic, 100, storage)
    topics.grow(own if is_own else runner.offsets_topic, 5)
    for number in (200, 400):
        with TaskRunner(bootstrap_servers, group=group) as restarted:
            _run(restarted, name, topic, number, storage)
        _run(runner, name, topic, number + 100, storage)
    assert _written(bootstrap_servers, topic, name) == list(range(1, 501))


def test_nothing_is_read_twice_after_the_offsets_topic_was_recreated(
    runner: TaskRunner, topics: Topics, topic: str, name: str, own: str
):
    """Offsets that the worker read from the deleted topic count, unless the new topic has newer ones."""
    bootstrap_servers = runner.worker.config.bootstrap_servers
    _run(runner, name, topic, 100, own)
    config = runner.worker.checked(properties(name, topic, {"offsets.storage.topic": own}))
    held = runner.worker.offsets(config)
    held.refresh()
    topics.delete(own)
    wait_for(lambda: topics.partitions(own) is None, what="the topic is gone")
    topics.create(own, partitions=2, config={"cleanup.policy": "compact"})
    _run(runner, name, topic, 200, own)
    with TaskRunner(bootstrap_servers, group=runner.worker.config.group_id) as restarted:
        _run(restarted, name, topic, 300, own)
    assert held.offsets() == [({"task.id": f"{name}-0"}, {"saved": 300})]
    assert _written(bootstrap_servers, topic, name) == list(range(1, 301))


def _late(runner: TaskRunner, name: str, own: str, saved: int | None) -> tuple[ConnectorOffsetStore, CommittedOffset]:
    """The offset store of a connector with its own topic, and an offset that was committed there long ago."""
    config = runner.worker.checked(properties(name, "t", {"offsets.storage.topic": own}))
    offset = None if saved is None else {"saved": saved}
    return runner.worker.offsets(config), CommittedOffset({"task.id": f"{name}-0"}, offset, 1_000)


def _copies_done(runner: TaskRunner) -> None:
    sample = runner.worker.metrics.registry.get_sample_value
    wait_for(lambda: sample("fencepost_offset_copies_pending") == 0, what="no copy is pending")


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_late_copy_is_dropped_where_something_newer_was_committed(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, own: str, *, is_reset: bool
):
    """A copy that was pending at the reset must not restore the removed offset."""
    _run(runner, name, topic, 100)
    if is_reset:
        reset_offsets(runner.worker, runner.worker.checked(properties(name, topic)), confirm=lambda: None)
    store, late = _late(runner, name, own, 7)
    store.copy([late])
    _copies_done(runner)
    stored = [record.value for record in read_topic(bootstrap_servers, runner.offsets_topic)]
    assert stored == ([b'{"saved":100}', None] if is_reset else [b'{"saved":100}'])


def test_a_late_copy_after_a_newer_commit_is_corrected(
    fault_proxy: FaultProxy, bootstrap_servers: str, topic: str, name: str, own: str
):
    """Readers ignore a late copy, but compaction would keep it. So the newer offset is written again."""
    group = unique("group")
    with TaskRunner(fault_proxy.address, group=group) as runner, TaskRunner(bootstrap_servers, group=group) as other:
        held = fault_proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
        store, late = _late(runner, name, own, 7)
        store.copy([late])
        held.wait()
        _run(other, name, topic, 100)
        held.release()
        wait_for(
            lambda: (
                [record.value for record in read_topic(bootstrap_servers, runner.offsets_topic)]
                == [b'{"saved":100}', b'{"saved":7}', b'{"saved":100}']
            ),
            what="the newer offset is written again",
        )
        _run(other, name, topic, 200)
    assert _written(bootstrap_servers, topic, name) == list(range(1, 201))


def test_offsets_of_a_null_source_partition_are_read_shown_and_removed(
    runner: TaskRunner, bootstrap_servers: str, name: str
):
    """In Java this is legal, for a source with only one partition."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random"})
    producer.produce(runner.offsets_topic, b'{"position":7}', key=f'["{name}",null]'.encode())
    assert producer.flush(_SECONDS) == 0
    config = runner.worker.checked(properties(name, "t"))
    store = runner.worker.offsets(config)
    assert store.offsets() == [(None, {"position": 7})]
    assert store.reader().offset(None) == {"position": 7}
    reset_offsets(runner.worker, config, confirm=lambda: None)
    assert store.offsets() == []
    (_, removal) = read_topic(bootstrap_servers, runner.offsets_topic)
    assert (removal.key, removal.value) == (f'["{name}",null]'.encode(), None)
