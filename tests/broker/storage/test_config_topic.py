"""The config topic on a broker: the same bytes as Connect's, and one leader at a time."""

from __future__ import annotations

from concurrent.futures import CancelledError

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from fencepost.api.errors import ConfigError, IllegalStateError
from fencepost.config.ids import ConnectorTaskId
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.config.client_config import ProducerConfig
from fencepost.kafka.consumer.read_to_end import TopicReadTimeoutError
from fencepost.kafka.errors import ProducerFencedError
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.records.columns import Records
from fencepost.storage.configs.codec import LoggerLevelRecord, RestartRequest, SessionKey, TargetState
from fencepost.storage.configs.state import (
    ClusterConfigState,
    ConnectorConfigRemoval,
    ConnectorConfigUpdate,
    SessionKeyUpdate,
    TargetStateChange,
    TaskConfigUpdate,
)
from fencepost.storage.errors import ConfigTimestampError, ConfigTooLargeError, ConfigWriteError
from tests.support.config_topic import SECONDS, Cluster, done
from tests.support.fault_proxy import FaultProxy
from tests.support.topics import Topics
from tests.support.wrong_clock import put_clock_ahead

_CONFIG = {"connector.class": "C", "tasks.max": "2", "topic": "t", "name": "c1"}


def _task(number: int) -> dict[str, str]:
    return {"connector.class": "C", "task.class": "T", "name": "c1", "task.id": str(number)}


def test_the_topic_is_made_as_connect_makes_it(cluster: Cluster, topics: Topics):
    state = cluster.worker().start()
    assert topics.partitions(cluster.topic) == 1
    settings = topics.config(cluster.topic)
    assert (settings["cleanup.policy"], settings["segment.ms"]) == ("compact", "123456")
    assert state == ClusterConfigState()


def test_a_topic_of_two_partitions_is_refused_with_the_reason(cluster: Cluster, topics: Topics):
    topics.create(cluster.topic, partitions=2, config={"cleanup.policy": "compact"})
    with pytest.raises(ConfigError, match=rf"{cluster.topic} has 2 partitions .* no common order"):
        cluster.worker().start()


def test_records_and_transactions_of_a_connectors_life_match_connect(cluster: Cluster):
    """The order of records and markers is the same as an Apache worker's, except that a stop is written at once.

    Writing the same configuration again names the commit that is still in force.
    """
    store = cluster.worker().lead()
    done(store.put_session_key(SessionKey(bytes(range(32)), "HmacSHA256", 1795255647511)))
    done(store.put_connector("c1", _CONFIG))
    done(store.put_task_configs("c1", [_task(0), _task(1)]))
    done(store.put_task_count("c1", 2))
    done(store.put_connector("c1", _CONFIG))
    done(store.put_target_state("c1", TargetState.PAUSED))
    done(store.stop_connector("c1"))
    done(store.put_target_state("c1", TargetState.STARTED))
    done(store.put_restart_request(RestartRequest("c1", include_tasks=True, only_failed=False)))
    done(store.put_logger_level("org.apache", "INFO"))
    done(store.remove_connector("c1"))
    task = b'{"properties":{"connector.class":"C","task.class":"T","name":"c1","task.id":"%d"}}'
    config = b'{"connector.class":"C","tasks.max":"2","topic":"t","name":"c1"}'
    key = b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    expected = [
        (0, b"session-key", b'{"key":"%s","algorithm":"HmacSHA256","creation-timestamp":1795255647511}' % key),
        (2, b"connector-c1", b'{"properties":%s}' % config),
        (4, b"task-c1-0", task % 0),
        (5, b"task-c1-1", task % 1),
        (7, b"commit-c1", b'{"tasks":2}'),
        (9, b"tasks-fencing-c1", b'{"task-count":2}'),
        (11, b"connector-c1", b'{"properties":%s,"continues":7}' % config),
        (13, b"target-state-c1", b'{"state":"PAUSED","state.v2":"PAUSED"}'),
        (14, b"commit-c1", b'{"tasks":0}'),
        (15, b"target-state-c1", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
        (17, b"target-state-c1", b'{"state":"STARTED","state.v2":"STARTED"}'),
        (18, b"restart-connector-c1", b'{"include-tasks":true,"only-failed":false}'),
        (20, b"logger-cluster-org.apache", b'{"level":"INFO"}'),
        (21, b"connector-c1", None),
        (22, b"target-state-c1", None),
    ]  # fmt: skip
    found = cluster.records()
    assert [(record.offset, record.key, record.value) for record in found] == expected
    assert {record.headers for record in found} == {()}
    # The last record is at offset 22. The topic ends behind the marker at 24.
    assert store.state.offset == 23


def test_a_write_is_done_once_it_is_read_back_and_notified(cluster: Cluster):
    worker = cluster.worker()
    store = worker.lead()
    done(store.put_connector("c1", _CONFIG, TargetState.PAUSED))
    assert store.state.connector_config("c1") == _CONFIG
    assert store.state.target_state("c1") is TargetState.PAUSED
    assert worker.happened() == [TargetStateChange("c1"), ConnectorConfigUpdate("c1")]
    done(store.put_task_configs("c1", [_task(0)]))
    assert store.state.task_configs("c1") == [_task(0)]
    assert store.state.pending_fencing("c1")
    offset = done(store.put_task_count("c1", 1))
    assert (store.state.entry("c1").task_count, store.state.entry("c1").task_count_offset) == (1, offset)
    assert not store.state.pending_fencing("c1")
    done(store.remove_connector("c1"))
    assert worker.happened()[2:] == [
        TaskConfigUpdate("c1", (ConnectorTaskId("c1", 0),)),
        ConnectorConfigRemoval("c1"),
    ]
    assert [state.offset for _, state in worker.events] == [1, 2, 6, 10]


def test_related_records_are_written_in_one_transaction(cluster: Cluster):
    """Unlike in Connect, one transaction has all related records, so a leader that dies leaves nothing half done."""
    store = cluster.worker().lead()
    done(store.put_connector("c1", _CONFIG, TargetState.PAUSED))
    done(store.stop_connector("c1"))
    done(store.remove_connector("c1"))
    pairs = [
        (b"target-state-c1", b"connector-c1"),
        (b"commit-c1", b"target-state-c1"),
        (b"connector-c1", b"target-state-c1"),
    ]
    assert [(record.offset, record.key) for record in cluster.records()] == [
        (3 * number + at, key) for number, pair in enumerate(pairs) for at, key in enumerate(pair)
    ]


def test_a_new_connector_is_started_despite_records_of_a_deleted_namesake(cluster: Cluster):
    store = cluster.worker().lead()
    done(store.put_target_state("c1", TargetState.PAUSED))
    done(store.put_connector("c1", _CONFIG))
    assert store.state.target_state("c1") is TargetState.STARTED
    done(store.put_target_state("c1", TargetState.PAUSED))
    done(store.put_connector("c1", _CONFIG))
    assert store.state.target_state("c1") is TargetState.PAUSED


def test_other_workers_are_notified_of_writes(cluster: Cluster):
    follower = cluster.worker()
    follower.start()
    leader = cluster.worker().lead()
    key = SessionKey(b"secret", "HmacSHA256", 1)
    request = RestartRequest("c1", include_tasks=False, only_failed=True)
    done(leader.put_session_key(key))
    done(leader.put_restart_request(request))
    done(follower.store.put_logger_level("root", "DEBUG"))
    assert done(follower.store.read_to_end()) == done(leader.read_to_end())
    assert follower.happened() == [SessionKeyUpdate(key), request, LoggerLevelRecord("root", "DEBUG")]


def test_a_worker_that_starts_later_agrees_and_restarts_nothing(cluster: Cluster):
    """A worker ignores restart requests that were written before it started."""
    store = cluster.worker().lead()
    done(store.put_connector("c1", _CONFIG))
    done(store.put_task_configs("c1", [_task(0)]))
    done(store.put_restart_request(RestartRequest("c1", include_tasks=True, only_failed=False)))
    late = cluster.worker()
    assert late.start() == store.state
    assert late.happened() == []


def test_an_old_leader_gets_an_error_to_retry_on_and_can_change_nothing(cluster: Cluster):
    old, new = cluster.worker(), cluster.worker()
    old.lead()
    new.lead()
    with pytest.raises(
        ConfigWriteError, match=r"taken over the right to write as the leader\. This can be retried"
    ) as failure:
        done(old.store.put_connector("c1", _CONFIG))
    assert failure.value.privilege_lost
    assert isinstance(failure.value.__cause__, ProducerFencedError)
    for write in (
        old.store.put_connector("c1", _CONFIG),
        old.store.put_task_configs("c1", [_task(0)]),
        old.store.put_task_count("c1", 7),
        old.store.remove_connector("c1"),
    ):
        with pytest.raises(IllegalStateError, match="Claim it first"):
            done(write)
    assert cluster.records() == []
    done(old.store.put_target_state("c1", TargetState.PAUSED))
    done(new.store.read_to_end())
    done(new.store.put_connector("c1", _CONFIG))
    # The deleted connector's records do not apply to a new connector of the same name.
    assert [key for key, _ in cluster.rows()] == [b"target-state-c1", b"target-state-c1", b"connector-c1"]


@pytest.mark.parametrize("transactional", [True, False])
def test_oversize_writes_are_refused_and_the_leader_keeps_working(cluster: Cluster, *, transactional: bool):
    leader = cluster.worker(transactional=transactional)
    leader.lead()
    with pytest.raises(ConfigTooLargeError, match=r"c1 takes 2000\d+ bytes, more than the 1048576 bytes"):
        done(leader.store.put_connector("c1", {**_CONFIG, "text": "x" * 2_000_000}))
    done(leader.store.put_connector("c1", _CONFIG))
    assert [key for key, _ in cluster.rows()] == [b"connector-c1"]


def test_an_old_leader_is_fenced_under_transaction_version_1_as_well(tv1_broker: EmbeddedBroker):
    cluster = Cluster(tv1_broker.bootstrap_servers)
    old, new = cluster.worker(), cluster.worker()
    done(old.lead().put_connector("c1", _CONFIG))
    done(new.lead().put_connector("c2", _CONFIG))
    with pytest.raises(ConfigWriteError) as failure:
        done(old.store.remove_connector("c2"))
    assert failure.value.privilege_lost
    assert done(new.store.read_to_end()).connectors() == ["c1", "c2"]
    cluster.close()


def test_a_leader_that_is_fenced_claims_its_privilege_back(cluster: Cluster):
    old, new = cluster.worker(), cluster.worker()
    old.lead()
    new.lead()
    done(old.store.claim_write_privilege())
    done(old.store.put_connector("c1", _CONFIG))
    with pytest.raises(ConfigWriteError):
        done(new.store.put_connector("c1", {"name": "c1", "from": "new"}))
    assert done(new.store.read_to_end()).connector_config("c1") == _CONFIG


def test_an_old_leaders_open_transaction_is_aborted_by_the_next_leader(cluster: Cluster):
    follower = cluster.worker()
    follower.start()
    config = follower.config
    zombie = TransactionalProducer(ProducerConfig(client=config), f"connect-cluster-{cluster.group}")
    zombie.init_transactions()
    zombie.begin_transaction()
    _half_write(zombie, cluster.topic)
    with pytest.raises(TopicReadTimeoutError, match=f"connect-cluster-{cluster.group}"):
        done(follower.store.read_to_end(timeout_ms=300))
    done(follower.store.claim_write_privilege())
    state = done(follower.store.read_to_end())
    assert state.connectors() == []
    assert state.offset == ClusterConfigState().offset
    zombie.close()


def _half_write(producer: TransactionalProducer, topic: str) -> None:
    writer = producer.writer()
    writer.write(topic, 0, Records(value=pa.array([b'{"properties":{}}']), key=pa.array([b"connector-zombie"])))
    producer.acknowledge(writer.flush())
    writer.close()


def test_without_exactly_once_writes_are_not_transactional(cluster: Cluster):
    worker = cluster.worker(transactional=False)
    store = worker.lead()
    done(store.put_connector("c1", _CONFIG))
    done(store.put_task_configs("c1", [_task(0), _task(1)]))
    done(store.remove_connector("c1"))
    keys = [b"connector-c1", b"task-c1-0", b"task-c1-1", b"commit-c1", b"connector-c1", b"target-state-c1"]
    # Without transactions, no markers are between the records.
    assert [(record.offset, record.key) for record in cluster.records()] == list(enumerate(keys))


def test_records_that_java_wrote_are_read_and_others_ignored(cluster: Cluster, caplog: pytest.LogCaptureFixture):
    worker = cluster.worker()
    worker.start()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for key, value in [
        (b"connector-a-1", b'{ "properties" : { "name" : "a-1" } }'),
        (b"task-a-1-0", b'{"properties":{"n":"0"}}'),
        (b"commit-a-1", b'{"tasks":1}'),
        (b"\xff\xfe", b"\x00"),
        (b"unknown", b"{}"),
        (b"connector-b", b"not json"),
        (b"tasks-count-a-1", b'{"tasks":3}'),
    ]:
        producer.produce(cluster.topic, value, key=key)
    assert producer.flush(SECONDS) == 0
    state = done(worker.store.read_to_end())
    assert state.connectors() == ["a-1"]
    assert state.task_configs("a-1") == [{"n": "0"}]
    assert state.task_count_record("a-1") == 3
    assert state.offset == 7
    assert "The record connector-b of the config topic is ignored" in caplog.text


def test_records_of_an_added_partition_are_ignored_and_named(
    cluster: Cluster, topics: Topics, caplog: pytest.LogCaptureFixture
):
    """Their order relative to other partitions' records is unknown. This worker writes to the first partition only."""
    worker = cluster.worker()
    store = worker.lead()
    done(store.put_connector("c", {"name": "c"}))
    topics.grow(cluster.topic, 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(cluster.topic, b'{"state":"PAUSED"}', key=b"target-state-c", partition=1)
    assert producer.flush(30) == 0
    done(store.read_to_end())
    assert store.state.target_state("c") is TargetState.STARTED
    assert f"{cluster.topic}-1 is ignored: the config topic must have exactly 1 partition" in caplog.text
    for state in (TargetState.PAUSED, TargetState.STOPPED):
        done(store.put_target_state("c", state))
    assert store.state.target_state("c") is TargetState.STOPPED
    assert [record.partition for record in cluster.records()].count(1) == 1


def test_the_topic_is_followed_again_after_a_cut(cluster: Cluster, fault_proxy: FaultProxy):
    far = cluster.worker(address=fault_proxy.address)
    far.start()
    near = cluster.worker().lead()
    fault_proxy.reset()
    done(near.put_connector("c1", _CONFIG))
    assert done(far.store.read_to_end()).connectors() == ["c1"]


def test_waiters_are_notified_when_the_store_is_closed(cluster: Cluster):
    worker = cluster.worker()
    worker.start()
    zombie = TransactionalProducer(ProducerConfig(client=worker.config), f"connect-cluster-{cluster.group}")
    zombie.init_transactions()
    zombie.begin_transaction()
    _half_write(zombie, cluster.topic)
    waiting = worker.store.read_to_end()
    worker.store.close()
    # The read is cancelled if its thread had not started it yet.
    with pytest.raises((IllegalStateError, CancelledError)):
        waiting.result(SECONDS)
    with pytest.raises(IllegalStateError, match=cluster.topic):
        worker.store.put_target_state("c1", TargetState.PAUSED)
    zombie.close()


@pytest.mark.parametrize("transactional", [True, False])
def test_a_write_by_a_wrong_clock_names_it_and_costs_no_privilege(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, transactional: bool
):
    store = cluster.worker(transactional=transactional).lead()
    with monkeypatch.context() as patched:
        put_clock_ahead(patched)
        for _ in range(2):
            with pytest.raises(ConfigTimestampError, match="the clock of this worker's machine") as refusal:
                done(store.put_connector("c1", _CONFIG))
            assert not refusal.value.privilege_lost
            assert "group.id" not in str(refusal.value)
    done(store.put_connector("c1", _CONFIG))
    assert store.state.contains("c1")
