"""The status topic on a broker: the same bytes as Connect's, written in the background whatever fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from fencepost.api.errors import ConfigError, IllegalStateError
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.internal_topics import InternalTopic
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.storage.statuses.codec import ActiveTopic, Status, TopicStatus, encode
from fencepost.storage.statuses.topic import StatusBackingStore
from tests.support.checker import Record, read_topic
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.wrong_clock import put_clock_ahead

_SECONDS = 120
_TASK = ConnectorTaskId("c1", 0)
_RUNNING = Status("RUNNING", "host:8083", 2, version="1.0")


class Workers:
    """Several status stores on one status topic."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = unique("status")
        self._stores: list[StatusBackingStore] = []

    def store(self, address: str | None = None, *, delivery_timeout_ms: int = 500) -> StatusBackingStore:
        config = ClientConfig(bootstrap_servers=(address or self.bootstrap_servers,), request_timeout_ms=5_000)
        topic = InternalTopic(self.topic, 5, None, {"cleanup.policy": "compact", "segment.ms": "123456"})
        producer = ProducerConfig(client=config, delivery_timeout_ms=delivery_timeout_ms)
        store = StatusBackingStore(topic, clients=KafkaClients(), consumer=config, producer=producer)
        self._stores.append(store)
        store.start(config).result(_SECONDS)
        return store

    def records(self) -> list[Record]:
        return read_topic(self.bootstrap_servers, self.topic)

    def history(self, key: bytes) -> list[bytes | None]:
        return [record.value for record in self.records() if record.key == key]

    def close(self) -> None:
        for store in self._stores:
            store.close()


@pytest.fixture
def workers(bootstrap_servers: str) -> Iterator[Workers]:
    workers = Workers(bootstrap_servers)
    yield workers
    workers.close()


def _written(store: StatusBackingStore) -> None:
    assert store.flush(_SECONDS)


def test_the_topic_is_made_as_connect_makes_it(workers: Workers, topics: Topics):
    workers.store()
    assert topics.partitions(workers.topic) == 5
    settings = topics.config(workers.topic)
    assert (settings["cleanup.policy"], settings["segment.ms"]) == ("compact", "123456")


def test_a_topic_that_would_lose_statuses_is_refused(workers: Workers, topics: Topics):
    topics.create(workers.topic)
    with pytest.raises(ConfigError, match=workers.topic):
        workers.store()


def test_statuses_match_connect_byte_for_byte(workers: Workers):
    store = workers.store()
    failed = Status("FAILED", "host:8083", 2, trace='Error: "é"\n\tat line 1', version="1.0")
    before = int(time.time() * 1000)
    store.put("c1", _RUNNING)
    store.put(_TASK, failed)
    store.put("c2", Status("STOPPED", "host:8083", 3))
    store.put_active_topic(_TASK, "t")
    _written(store)
    records = workers.records()
    assert {record.headers for record in records} == {()}
    found = {record.key: record.value for record in records}
    discovered = json.loads(found.pop(b"status-topic-t:connector-c1") or b"")["topic"].pop("discoverTimestamp")
    assert before <= discovered <= int(time.time() * 1000)
    assert found == {
        b"status-connector-c1": (
            b'{"state":"RUNNING","trace":null,"worker_id":"host:8083","generation":2,"version":"1.0"}'
        ),
        b"status-task-c1-0": (
            b'{"state":"FAILED","trace":"Error: \\"\xc3\xa9\\"\\n\\tat line 1","worker_id":"host:8083",'
            b'"generation":2,"version":"1.0"}'
        ),
        b"status-connector-c2": (
            b'{"state":"STOPPED","trace":null,"worker_id":"host:8083","generation":3,"version":null}'
        ),
    }
    assert workers.history(b"status-topic-t:connector-c1") == [
        b'{"topic":{"name":"t","connector":"c1","task":0,"discoverTimestamp":%d}}' % discovered
    ]


def test_records_go_to_the_partitions_that_a_java_worker_would_take(workers: Workers):
    store = workers.store()
    for number in range(30):
        store.put(f"c{number}", _RUNNING)
    _written(store)
    ours = {record.key: record.partition for record in workers.records()}
    producer = Producer({"bootstrap.servers": workers.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in ours:
        producer.produce(workers.topic, b"{}", key=key)
    assert producer.flush(_SECONDS) == 0
    assert {(record.key, record.partition) for record in workers.records()} == set(ours.items())
    assert len(set(ours.values())) == 5


def test_workers_that_start_later_are_notified_as_well(workers: Workers):
    first, second = workers.store(), workers.store()
    first.put("c1", _RUNNING)
    first.put(_TASK, _RUNNING)
    first.put_active_topic(_TASK, "t")
    for store in (first, second):
        wait_for(lambda store=store: store.table.topics("c1") and store.table.tasks("c1"))
        wait_for(lambda store=store: store.table.connector("c1") == _RUNNING)
    late = workers.store()
    assert late.table.connectors() == ["c1"]
    assert late.table.tasks("c1") == {_TASK: _RUNNING}
    assert [status.topic for status in late.table.topics("c1")] == ["t"]


def test_reports_are_written_in_their_order(workers: Workers):
    store = workers.store()
    states = ["UNASSIGNED", "RESTARTING", "RUNNING"] * 20
    for state in states:
        store.put(_TASK, Status(state, "host:8083", 2))
    _written(store)
    assert [json.loads(value or b"")["state"] for value in workers.history(b"status-task-c1-0")] == states


def test_a_late_report_does_not_overwrite_the_next_owners(workers: Workers):
    old, new = workers.store(), workers.store()
    new.put(_TASK, Status("RUNNING", "new:8083", 5))
    wait_for(lambda: old.table.task(_TASK))
    old.put(_TASK, Status("UNASSIGNED", "old:8083", 4))
    old.put(_TASK, Status("FAILED", "old:8083", 4, trace="late"))
    _written(old)
    assert len(workers.history(b"status-task-c1-0")) == 1
    old.put(_TASK, Status("FAILED", "old:8083", 6, trace="newer"))
    wait_for(lambda: (new.table.task(_TASK) or _RUNNING).trace == "newer")


def test_a_report_after_the_next_owners_does_not_stay(workers: Workers, fault_proxy: FaultProxy):
    old, new = workers.store(fault_proxy.address, delivery_timeout_ms=60_000), workers.store()
    sending = fault_proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
    old.put(_TASK, Status("UNASSIGNED", "old:8083", 4))
    sending.wait()
    new.put(_TASK, Status("RUNNING", "new:8083", 5))
    wait_for(lambda: old.table.task(_TASK), what="the new owner has reported")
    sending.release()
    _written(old)

    def states() -> list[str]:
        return [json.loads(value or b"")["state"] for value in workers.history(b"status-task-c1-0")]

    wait_for(lambda: "UNASSIGNED" in states() and states()[-1] == "RUNNING", what="the new owner has reported again")
    assert states()[0] == "RUNNING"


def test_a_late_report_that_bears_the_generation_of_the_next_owner_does_not_stay(workers: Workers):
    """An Apache worker writes such a report of a task that did not stop in time. The owner corrects three of them."""
    owner = workers.store()
    owner.put(_TASK, Status("RUNNING", "new:8083", 5))
    _written(owner)
    producer = Producer({"bootstrap.servers": workers.bootstrap_servers, "partitioner": "murmur2_random"})
    key, late = encode(_TASK, Status("RUNNING", "old:8083", 5))

    def owners() -> list[str]:
        return [json.loads(value or b"")["worker_id"] for value in workers.history(key)]

    for times in range(1, 4):
        producer.produce(workers.topic, late, key=key)
        said = ["new:8083", *["old:8083", "new:8083"] * times]
        wait_for(lambda said=said: owners() == said, what="the owner has reported again")
        wait_for(lambda: (owner.table.task(_TASK) or _RUNNING).worker_id == "new:8083", what="and has read it")
    producer.produce(workers.topic, late, key=key)
    wait_for(lambda: (owner.table.task(_TASK) or _RUNNING).worker_id == "old:8083", what="the fourth one is read")
    _written(owner)
    assert owners()[-2:] == ["new:8083", "old:8083"]


def test_a_report_that_is_removed_late_is_written_again(workers: Workers):
    """A connector was deleted and created again: the tombstones for the old connector's statuses may come late."""
    owner, other = workers.store(), workers.store()
    owner.put(_TASK, _RUNNING)
    owner.put("c1", _RUNNING)
    wait_for(lambda: other.table.task(_TASK) and other.table.connector("c1"), what="the owner has reported")
    other.delete_connector("c1")
    _written(other)

    def history(key: bytes) -> list[bool]:
        return [value is not None for value in workers.history(key)]

    for key in b"status-connector-c1", b"status-task-c1-0":
        wait_for(lambda key=key: history(key) == [True, False, True], what="the owner has reported again")
    owner.delete_connector("c1")
    _written(owner)
    wait_for(lambda: owner.table.connectors() == [], what="the owner reads that it has removed them")
    _written(owner)
    for key in b"status-connector-c1", b"status-task-c1-0":
        assert history(key) == [True, False, True, False], "what the owner itself removes is not said again"


def test_no_statuses_are_repeated_for_revoked_work(workers: Workers):
    store = workers.store()
    lost, given_up = (ConnectorTaskId("c1", number) for number in range(2))
    for task in (lost, given_up):
        store.put(task, Status("RUNNING", "new:8083", 5))
    store.disown(lost)
    store.put(given_up, Status("UNASSIGNED", "new:8083", 5))
    wait_for(lambda: (store.table.task(given_up) or _RUNNING).state == "UNASSIGNED", what="all is read back")
    producer = Producer({"bootstrap.servers": workers.bootstrap_servers, "partitioner": "murmur2_random"})
    late = Status("RUNNING", "old:8083", 4)
    for task in (lost, given_up):
        key, value = encode(task, late)
        producer.produce(workers.topic, value, key=key)
    assert producer.flush(_SECONDS) == 0
    wait_for(lambda: list(store.table.tasks("c1").values()) == [late, late], what="the late reports are read")
    _written(store)
    assert len(workers.records()) == 3 + 2


def test_statuses_stored_before_a_worker_joined_block_no_report(workers: Workers):
    """A group whose coordinator state was lost starts again at generation 1."""
    former = workers.store()
    former.put(_TASK, Status("RUNNING", "former:8083", 57))
    former.close()
    store = workers.store()
    store.put(_TASK, Status("FAILED", "new:8083", 1, trace="why"))
    _written(store)
    wait_for(lambda: (store.table.task(_TASK) or _RUNNING).trace == "why", what="the failure shows")


def test_a_connector_that_is_deleted_leaves_nothing(workers: Workers):
    store = workers.store()
    store.put("c1", _RUNNING)
    store.put(_TASK, _RUNNING)
    store.put("c10", _RUNNING)
    store.put_active_topic(_TASK, "t")
    wait_for(lambda: store.table.topics("c1") and store.table.tasks("c1") and len(store.table.connectors()) == 2)
    store.delete_connector("c1")
    wait_for(lambda: not (store.table.topics("c1") or store.table.tasks("c1")))
    wait_for(lambda: store.table.connectors() == ["c10"])
    last = {record.key: record.value for record in workers.records()}
    assert [key for key, value in sorted(last.items()) if value is not None] == [b"status-connector-c10"]


def test_an_active_topic_that_is_known_is_not_written_again(workers: Workers):
    """A reset of the active topics makes it unknown again."""
    store = workers.store()
    for _ in range(3):
        store.put_active_topic(_TASK, "t")
        wait_for(lambda: store.table.topics("c1"))
    store.delete_active_topic(ActiveTopic("c1", "t"))
    store.put_active_topic(ConnectorTaskId("c1", 1), "t")
    _written(store)
    values = [value and json.loads(value)["topic"]["task"] for value in workers.history(b"status-topic-t:connector-c1")]
    assert values == [0, None, 1]


def test_records_of_java_are_read_and_malformed_ones_ignored(workers: Workers):
    store = workers.store()
    producer = Producer({"bootstrap.servers": workers.bootstrap_servers})
    for key, value in [
        (b"status-task-a-1-12", b'{"generation":1, "state":"PAUSED", "trace":null, "worker_id":"w"}'),
        (b"status-topic-t:connector-a-1", b'{"topic":{"task":12,"name":"t","discoverTimestamp":5,"connector":"a-1"}}'),
        (b"status-task-x", b"{}"),
        (b"status-connector-x", b"[]"),
        (b"\xff", None),
        (b"status-connector-a-1", b'{"generation":1,"state":"RUNNING","trace":null,"worker_id":"w","version":null}'),
    ]:
        producer.produce(workers.topic, value, key=key)
    assert producer.flush(_SECONDS) == 0
    wait_for(lambda: store.table.connectors() == ["a-1"])
    wait_for(lambda: store.table.tasks("a-1") == {ConnectorTaskId("a-1", 12): Status("PAUSED", "w", 1)})
    wait_for(lambda: store.table.topics("a-1") == [TopicStatus("t", "a-1", 12, 5)])


def test_reports_during_a_cut_are_written_after_it_the_newest_of_each(workers: Workers, fault_proxy: FaultProxy):
    far = workers.store(fault_proxy.address)
    fault_proxy.refuse()
    fault_proxy.reset()
    far.put(_TASK, Status("RESTARTING", "far:8083", 2))
    assert not far.flush(1)
    far.put(_TASK, Status("RUNNING", "far:8083", 2))
    wait_for(lambda: [write.status.state for write in (*far._sending, *far._queue)] == ["RUNNING"])
    fault_proxy.heal()
    _written(far)
    assert [json.loads(value or b"")["state"] for value in workers.history(b"status-task-c1-0")] == ["RUNNING"]
    wait_for(lambda: far.table.task(_TASK))


def test_one_oversize_report_does_not_block_others(workers: Workers):
    store = workers.store()
    store.put("before", _RUNNING)
    store.put("large", Status("FAILED", "host:8083", 2, trace="x" * 2_000_000))
    store.put("after", _RUNNING)
    _written(store)
    assert {record.key for record in workers.records()} == {b"status-connector-before", b"status-connector-after"}


def test_a_closed_store_takes_no_reports(workers: Workers):
    store = workers.store()
    store.put("c1", _RUNNING)
    store.close()
    assert workers.history(b"status-connector-c1") != []
    with pytest.raises(IllegalStateError, match=workers.topic):
        store.put("c1", _RUNNING)


def test_the_newest_status_of_equal_keys_in_two_partitions_wins(
    workers: Workers, topics: Topics, bootstrap_servers: str
):
    """After an increase of partitions, the key hashes to another partition."""
    topics.create(workers.topic, partitions=2, config={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    old, new = (Status(state, "host:8083", 1) for state in ("PAUSED", "RUNNING"))
    for partition, status, timestamp in ((0, new, 2_000), (1, old, 1_000)):
        key, value = encode("c1", status)
        producer.produce(workers.topic, value, key=key, partition=partition, timestamp=timestamp)
        assert producer.flush(_SECONDS) == 0
    store = workers.store()
    assert store.table.status("c1") == new
    store.put("c1", _RUNNING)
    _written(store)
    assert [record.partition for record in workers.records() if record.value == encode("c1", _RUNNING)[1]] == [0]
    store.delete_connector("c1")
    _written(store)
    assert {record.partition for record in workers.records() if record.value is None} == {0, 1}


@pytest.mark.usefixtures("brief_learning")
def test_a_status_in_a_partition_that_is_new_is_read(workers: Workers, topics: Topics, bootstrap_servers: str):
    store = workers.store()
    topics.grow(workers.topic, 7)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    key, value = encode("c1", _RUNNING)
    producer.produce(workers.topic, value, key=key, partition=6)
    assert producer.flush(_SECONDS) == 0
    wait_for(lambda: store.table.status("c1") == _RUNNING, what="it is read")


def test_a_worker_repeats_its_statuses_when_the_topic_was_recreated(workers: Workers, topics: Topics):
    store = workers.store()
    store.put("c1", _RUNNING)
    _written(store)
    wait_for(lambda: store.table.status("c1") == _RUNNING, what="it is read back")
    topics.delete(workers.topic)
    wait_for(lambda: topics.partitions(workers.topic) is None, what="the topic is gone")
    topics.create(workers.topic, partitions=2, config={"cleanup.policy": "compact"})
    wait_for(
        lambda: [record.value for record in workers.records()] == [encode("c1", _RUNNING)[1]], what="it is said again"
    )


def test_statuses_that_were_refused_for_the_clock_are_written_once_it_is_set(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
):
    store = workers.store()
    with monkeypatch.context() as patched:
        put_clock_ahead(patched)
        store.put(_TASK, _RUNNING)
        wait_for(lambda: store.refusal is not None, what="the broker refuses the status")
        assert "INVALID_TIMESTAMP" in str(store.refusal)
    _written(store)
    assert store.refusal is None
    assert len(workers.records()) == 1
