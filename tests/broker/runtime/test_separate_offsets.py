"""Connectors with their own offsets topics, on the worker's cluster and on another: offsets are merged and copied."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.api.errors import ConfigError
from fencepost.config.worker_config import WorkerConfig
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.read_to_end import TopicReadTimeoutError
from fencepost.kafka.errors import ProducerFencedError
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.connector_offsets import alter_offsets, committed_offsets, reset_offsets
from fencepost.runtime.state import State
from fencepost.storage.errors import OffsetsNotCopiedError
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore
from fencepost.storage.offsets.overlay import CommittedOffset
from fencepost.storage.offsets.uncommitted import OffsetRecords
from tests.support.checker import read_offsets, read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.sequence_source import properties, seqs
from tests.support.standalone import StandaloneWorker
from tests.support.task_runner import TaskRunner, stop
from tests.support.topics import Topics, unique
from tests.support.writing import open_producer, producer_config

_FAR_FUTURE = 10**15
"""A commit time later than all others."""


@pytest.fixture
def own() -> str:
    """The name of a connector's own offsets topic."""
    return unique("own-offsets")


def _saved(bootstrap_servers: str, topic: str, name: str) -> int | None:
    """The committed offset of the one task of a connector, None if there is none."""
    offsets = read_offsets(bootstrap_servers, topic, name)
    assert [partition for partition, _ in offsets] in ([], [{"task.id": f"{name}-0"}])
    return offsets[0][1]["saved"] if offsets and offsets[0][1] else None


def _run(runner: TaskRunner, name: str, topic: str, limit: int, **config: str) -> None:
    """Run a connector until this many records are written."""
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    task, _ = runner.started(name, topic, {"limit": limit, **dotted}, stop_at_end=True)
    assert task.join(60), task.error
    assert task.error is None


def _written(bootstrap_servers: str, topic: str, name: str) -> list[int]:
    return seqs(values(read_topic(bootstrap_servers, topic)), name)


def agree() -> None:
    """Confirm the change of offsets; no task runs in these tests."""


def end_of(bootstrap_servers: str, topic: str) -> int:
    """The sum of all partitions' end offsets, with transaction markers and uncommitted records."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": topic, "isolation.level": "read_uncommitted"}
    with closing(Consumer(settings)) as consumer:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, number), 30)[1] for number in partitions)


def _pending(runner: TaskRunner) -> float | None:
    return runner.worker.metrics.registry.get_sample_value("fencepost_offset_copies_pending")


def _write(producer: TransactionalProducer, topic: str, offsets: OffsetRecords) -> None:
    """Write offsets in a new transaction, and leave it open."""
    producer.begin_transaction()
    with closing(producer.writer()) as writer:
        for partition, records in offsets.by_partition(writer.partitions(topic)):
            writer.write(topic, partition, records)
        producer.acknowledge(writer.flush())


def _store(runner: TaskRunner, name: str, **config: str) -> ConnectorOffsetStore:
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    return runner.worker.offsets(runner.worker.checked(properties(name, "t", dotted)))


def test_a_connector_that_gets_its_own_offsets_topic_reads_nothing_again(
    runner: TaskRunner, topic: str, topics: Topics, name: str, own: str
):
    """The connector switches to its own offsets topic and back, with and without exactly-once."""
    bootstrap_servers = runner.worker.config.bootstrap_servers
    _run(runner, name, topic, 100)
    _run(runner, name, topic, 200, offsets_storage_topic=own)
    assert topics.config(own)["cleanup.policy"] == "compact"
    assert topics.partitions(own) == 2, "as offset.storage.partitions of the worker says"
    assert _saved(bootstrap_servers, own, name) == 200
    _run(runner, name, topic, 300, offsets_storage_topic=own, exactly_once_support="disabled")
    wait_for(lambda: _saved(bootstrap_servers, runner.offsets_topic, name) == 300, what="the copy")
    _run(runner, name, topic, 400)
    assert _written(bootstrap_servers, topic, name) == list(range(1, 401))


def test_a_standalone_connector_of_another_cluster_stores_offsets_in_that_cluster(
    bootstrap_servers: str, other_broker: EmbeddedBroker, name: str
):
    """With `producer.override.bootstrap.servers` alone, records and offsets are in that cluster, and a copy is here."""
    group, there = unique("group"), other_broker.bootstrap_servers
    topic = Topics(there).create()
    string = "org.apache.kafka.connect.storage.StringConverter"
    worker = {"bootstrap.servers": bootstrap_servers, "group.id": group, "offset.storage.topic": f"{group}-offsets"}
    worker |= {"config.storage.topic": f"{group}-configs", "key.converter": string, "value.converter": string}
    worker |= {"offset.storage.partitions": "3", "offset.storage.segment.ms": "123456"}
    worker |= {"connector.client.config.override.allowlist": "bootstrap.servers"}
    override = {"producer.override.bootstrap.servers": there}
    for limit in (100, 200):
        config = WorkerConfig.from_properties(worker, where="test worker")
        StandaloneWorker(config, properties(name, topic, {"limit": limit, **override}), once=True).run()
    assert _written(there, topic, name) == list(range(1, 201))
    assert _saved(there, f"{group}-offsets", name) == 200
    settings = Topics(there)
    assert settings.partitions(f"{group}-offsets") == 3
    made = settings.config(f"{group}-offsets")
    assert (made["cleanup.policy"], made["segment.ms"]) == ("compact", "123456")
    assert _saved(bootstrap_servers, f"{group}-offsets", name) == 200
    assert topic not in AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics(timeout=60).topics


def test_other_addresses_of_the_brokers_mean_the_same_cluster(
    runner: TaskRunner, fault_proxy: FaultProxy, bootstrap_servers: str, topic: str, name: str
):
    """Both addresses lead to one cluster. Copies into the topic that tasks commit to could replace newer offsets."""
    _run(runner, name, topic, 100, producer_override_bootstrap_servers=fault_proxy.address)
    store = _store(
        runner,
        name,
        producer_override_bootstrap_servers=fault_proxy.address,
        consumer_override_bootstrap_servers=bootstrap_servers,
    )
    store.copy([CommittedOffset({"task.id": f"{name}-0"}, {"saved": 7}, _FAR_FUTURE)])
    runner.worker.stop()
    assert [record.value for record in read_topic(bootstrap_servers, runner.offsets_topic)] == [b'{"saved":100}']


def test_failed_copies_are_retried_and_the_task_keeps_running(
    fault_proxy: FaultProxy, bootstrap_servers: str, topic: str, name: str, own: str
):
    """Only the newest of the offsets committed meanwhile is copied."""
    direct = {"producer.override.bootstrap.servers": bootstrap_servers, "offsets.storage.topic": own}
    retrying = {"producer.delivery.timeout.ms": "1000", "producer.request.timeout.ms": "1000"}
    with TaskRunner(fault_proxy.address, retrying) as runner:
        held = fault_proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
        task, seen = runner.started(name, topic, {"messages.per.poll": 1, **direct})
        held.wait()
        fault_proxy.refuse()
        commits = seen.commits
        wait_for(lambda: seen.commits >= commits + 20, what="the task goes on")
        assert task.state is State.RUNNING
        copied = len(read_topic(bootstrap_servers, runner.offsets_topic, isolation="read_uncommitted"))
        assert copied <= 1, "the way is cut"
        assert _pending(runner) == 1, "one source partition"
        cut_off = seen.commits
        fault_proxy.heal()
        # The task commits all the time, so usually an offset waits to be copied.
        wait_for(
            lambda: (_saved(bootstrap_servers, runner.offsets_topic, name) or 0) >= cut_off, what="it copies again"
        )
        stop(task)
        last = _saved(bootstrap_servers, own, name)
        wait_for(lambda: _saved(bootstrap_servers, runner.offsets_topic, name) == last, what="the newest is copied")
        wait_for(lambda: _pending(runner) == 0, what="nothing is left to copy")
    copies = read_topic(bootstrap_servers, runner.offsets_topic)
    assert len(copies) <= copied + 3 + seen.commits - cut_off, "what was replaced meanwhile is not copied"


def test_a_task_writes_the_copies_that_a_dead_worker_did_not_write(
    runner: TaskRunner, bootstrap_servers: str, name: str, own: str
):
    store = _store(runner, name, offsets_storage_topic=own)
    stale, gone, other = {"f": "stale"}, {"f": "gone"}, {"f": "of another task"}
    with open_producer(producer_config(bootstrap_servers), unique("dead")) as producer:
        for written, offsets in (
            (_store(runner, name), [(stale, {"n": 1}), (gone, {"n": 1})]),
            (store, [(stale, {"n": 2}), (gone, None), (other, {"n": 3})]),
        ):
            records = written.records()
            records.update(offsets)
            _write(producer, written.topic, records)
            producer.commit_transaction()
    assert store.reader().offsets([stale, gone, other]) == [{"n": 2}, None, {"n": 3}]
    assert store.task_reader().offsets([stale, gone]) == [{"n": 2}, None]
    expected = [(stale, {"n": 2}), (gone, None)]
    wait_for(
        lambda: (
            sorted(read_offsets(bootstrap_servers, runner.offsets_topic, name), key=str) == sorted(expected, key=str)
        ),
        what="what the task asked for is copied, and nothing else",
    )


def _commit(producer: TransactionalProducer, store: ConnectorOffsetStore, partition: dict[str, str], n: int) -> None:
    """Commit an offset like a task that dies before the offset is copied."""
    records = store.records()
    records.put(partition, {"n": n})
    _write(producer, store.topic, records)
    producer.commit_transaction()


def test_an_uncopied_offset_is_found_behind_commits_of_other_tasks(
    runner: TaskRunner, bootstrap_servers: str, name: str, own: str
):
    """A task that starts late finds the former offsets topic, although the latest copies no longer name it."""
    copied, uncopied = {"f": "copied"}, {"f": "uncopied"}
    former = _store(runner, name, offsets_storage_topic=own)
    with open_producer(producer_config(bootstrap_servers), unique("tasks")) as producer:
        for partition in (copied, uncopied):
            _commit(producer, former, partition, 1)
        assert former.task_reader().offset(copied) == {"n": 1}
        wait_for(lambda: read_offsets(bootstrap_servers, runner.offsets_topic, name), what="the copy")
        for n in (2, 3):
            with TaskRunner(bootstrap_servers, group=runner.worker.config.group_id) as restarted:
                store = _store(restarted, name)
                assert store.task_reader().offset(copied) == {"n": n - 1}
                _commit(producer, store, copied, n)
        with TaskRunner(bootstrap_servers, group=runner.worker.config.group_id) as restarted:
            late = _store(restarted, name)
            assert late.task_reader().offset(uncopied) == {"n": 1}
            _commit(producer, late, uncopied, 2)
            assert late.offsets() == [(copied, {"n": 3}), (uncopied, {"n": 2})]
            _commit(producer, late, copied, 4)
    newest = [
        record for record in read_topic(bootstrap_servers, runner.offsets_topic) if b'"copied"' in (record.key or b"")
    ]
    assert "fencepost.former.topics" not in dict(newest[-1].headers), "nothing is left there that counts"


def test_altered_and_removed_offsets_are_in_both_topics(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, own: str
):
    """An offset that is only in the worker's topic is removed as well."""
    _run(runner, name, topic, 100)
    config = runner.worker.checked(properties(name, topic, {"offsets.storage.topic": own}))
    partition = {"task.id": f"{name}-0"}
    assert committed_offsets(runner.worker, config) == [(partition, {"saved": 100})]
    alter_offsets(runner.worker, config, [(partition, {"saved": 40}), ({"x": 1}, {"n": 1})], confirm=agree)
    assert sorted(committed_offsets(runner.worker, config), key=str) == [
        (partition, {"saved": 40}),
        ({"x": 1}, {"n": 1}),
    ]
    reset_offsets(runner.worker, config, confirm=agree)
    assert committed_offsets(runner.worker, config) == []
    for store in (own, runner.offsets_topic):
        left = read_offsets(bootstrap_servers, store, name)
        assert sorted(left, key=str) == [(partition, None), ({"x": 1}, None)]
    # The copy comes between the removals from the two topics, as from another worker.
    runner.worker.offsets(config).copy([CommittedOffset({"x": 1}, {"n": 1}, _FAR_FUTURE)])
    wait_for(
        lambda: ({"x": 1}, {"n": 1}) in read_offsets(bootstrap_servers, runner.offsets_topic, name), what="the copy"
    )
    reset_offsets(runner.worker, config, confirm=agree)
    assert ({"x": 1}, None) in read_offsets(bootstrap_servers, runner.offsets_topic, name)


def test_offsets_stay_if_the_connector_is_resumed_while_they_are_written(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, own: str
):
    """The worker that writes may no longer be the leader, and the new leader may have resumed the connector."""
    _run(runner, name, topic, 100)
    config = runner.worker.checked(properties(name, topic, {"offsets.storage.topic": own}))
    partition = {"task.id": f"{name}-0"}

    def refuse() -> None:
        assert end_of(bootstrap_servers, own) > 0, "what is to be committed is written"
        raise ConfigError("It was resumed")

    with pytest.raises(ConfigError, match="It was resumed"):
        reset_offsets(runner.worker, config, confirm=refuse)
    assert committed_offsets(runner.worker, config) == [(partition, {"saved": 100})]


@pytest.mark.parametrize("fenced_at", [1, 2])
def test_a_reset_that_is_fenced_leaves_offsets_that_only_the_workers_topic_has(
    runner: TaskRunner, bootstrap_servers: str, topic: str, name: str, own: str, *, fenced_at: int
):
    """The reset first commits the offset in the own topic, so that it stays valid if the removal is not committed."""
    _run(runner, name, topic, 100)
    config = runner.worker.checked(properties(name, topic, {"offsets.storage.topic": own}))
    confirmed: list[None] = []

    def fence() -> None:
        confirmed.append(None)
        if len(confirmed) == fenced_at:
            with Admin(ClientConfig((bootstrap_servers,))) as admin:
                admin.fence_producers([f"{runner.worker.config.group_id}-{name}-0"]).all()

    with pytest.raises(ProducerFencedError):
        reset_offsets(runner.worker, config, confirm=fence)
    for settings in (config, runner.worker.checked(properties(name, topic))):
        assert committed_offsets(runner.worker, settings) == [({"task.id": f"{name}-0"}, {"saved": 100})]
    reset_offsets(runner.worker, config, confirm=agree)
    assert committed_offsets(runner.worker, config) == []


def test_offsets_are_removed_from_the_workers_topic_before_they_are_from_the_own(
    fault_proxy: FaultProxy, bootstrap_servers: str, name: str, own: str
):
    """Otherwise the copy would come back once compaction dropped the tombstone in the own topic."""
    direct = {"producer.override.bootstrap.servers": bootstrap_servers, "offsets.storage.topic": own}
    partition = {"task.id": f"{name}-0"}
    with TaskRunner(fault_proxy.address) as runner, ThreadPoolExecutor(1) as thread:
        config = runner.worker.checked(properties(name, "t", direct))
        alter_offsets(runner.worker, config, [(partition, {"saved": 40})], confirm=agree)
        wait_for(lambda: _saved(bootstrap_servers, runner.offsets_topic, name) == 40, what="the copy")
        held = fault_proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
        resetting = thread.submit(reset_offsets, runner.worker, config, confirm=agree)
        held.wait()
        assert _saved(bootstrap_servers, own, name) == 40
        held.release()
        resetting.result(60)
        wait_for(lambda: _pending(runner) == 0, what="the removal is copied")
        store = runner.worker.offsets(config)
        store.refresh()
        held = fault_proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
        with pytest.raises(OffsetsNotCopiedError, match=f"connector {name} .* offsets topic {runner.offsets_topic}"):
            store.remove_copies([partition], timeout_s=0.1)
        held.release()
    for store in (own, runner.offsets_topic):
        assert read_offsets(bootstrap_servers, store, name) == [(partition, None)]


@pytest.mark.parametrize("client", ["consumer", "admin"])
def test_a_client_that_is_set_to_another_cluster_than_the_producer_is_refused(
    runner: TaskRunner, other_broker: EmbeddedBroker, name: str, client: str
):
    setting = f"{client}.override.bootstrap.servers"
    config = properties(name, "t", {setting: other_broker.bootstrap_servers})
    with pytest.raises(ConfigError, match=f"Connector {name} writes to .* but {setting}=.* is another cluster"):
        runner.worker.offsets(runner.worker.checked(config))


def test_an_own_offsets_topic_that_is_not_compacted_is_refused_with_the_remedy(
    runner: TaskRunner, topics: Topics, name: str
):
    own = topics.create(config={"cleanup.policy": "delete"})
    with pytest.raises(
        ConfigError, match=f"Topic {own} exists with cleanup.policy=delete.* set cleanup.policy=compact"
    ):
        runner.task(name, "t", {"offsets.storage.topic": own})


@pytest.mark.usefixtures("brief_learning")
def test_a_task_whose_offsets_topic_is_deleted_recreates_it_and_resumes(
    runner: TaskRunner, other_broker: EmbeddedBroker, name: str, own: str
):
    there = other_broker.bootstrap_servers
    topic = Topics(there).create()
    # A topic that the task just created would be waited for, as brokers learn of it late. So another client creates
    # this one.
    Topics(there).create(own, config={"cleanup.policy": "compact"})
    config = {"producer.override.bootstrap.servers": there, "offsets.storage.topic": own, "messages.per.poll": 1}
    task, seen = runner.started(name, topic, config)
    wait_for(lambda: seen.commits > 3, what="something is committed")
    admin = AdminClient({"bootstrap.servers": there})
    for deleting in admin.delete_topics([own]).values():
        deleting.result(60)
    wait_for(lambda: State.RESTARTING in runner.states.of(task), what="the task finds the topic gone")
    reasons = [str(error) for _, state, error in runner.states.of_tasks if state is State.RESTARTING]
    assert f"Topic {own}, which holds the source offsets of this task, does not exist any more" in reasons[0]
    wait_for(lambda: task.state is State.RUNNING and seen.starts >= 2, what="the task runs again")
    commits = seen.commits
    wait_for(lambda: seen.commits > commits + 3, what="it commits again")
    stop(task)
    found = _written(there, topic, name)
    assert found == list(range(1, len(found) + 1))
    assert _saved(there, own, name) == found[-1]
    assert Topics(there).config(own)["cleanup.policy"] == "compact"


def test_an_open_transaction_in_the_own_topic_is_named(runner: TaskRunner, bootstrap_servers: str, name: str, own: str):
    """The read waits for the transaction, and its timeout error names the transactional id."""
    config = properties(name, "t", {"offsets.storage.topic": own})
    store = runner.worker.offsets(runner.worker.checked(config))
    foreign = unique("foreign")
    with open_producer(producer_config(bootstrap_servers), foreign) as producer:
        records = store.records()
        records.put({"f": 1}, {"n": 1})
        _write(producer, own, records)
        with pytest.raises(TopicReadTimeoutError, match=f"{own}.*{foreign}.* transactions abort"):
            store.offsets(timeout_ms=500)
        producer.commit_transaction()
    assert store.task_reader().offset({"f": 1}) == {"n": 1}
