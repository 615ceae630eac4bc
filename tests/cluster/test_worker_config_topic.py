"""A worker starts from a group's old config topic: many changes, compacted, some half written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.processes import wait_for
from tests.support.sequence_source import properties, seqs
from tests.support.topics import Topics, unique
from tests.support.workers import Group

CHANGES = 150
# Only closed segments are compacted. The first record after this time closes a segment.
SOON_COMPACTED = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.0001"}


def produce(bootstrap_servers: str, topic: str, records: dict[str, object]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key, value in records.items():
        producer.produce(topic, json.dumps(value).encode(), key=key.encode())
    assert producer.flush(60) == 0


def alter(bootstrap_servers: str, topic: str, settings: dict[str, str]) -> None:
    entries = [ConfigEntry(*setting, incremental_operation=AlterConfigOpType.SET) for setting in settings.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(60)


def test_tasks_that_compaction_left_inconsistent_are_generated_again(
    tmp_path: Path, bootstrap_servers: str, topics: Topics
) -> None:
    group, name = Group(tmp_path, bootstrap_servers), unique("connector")
    config_topic = topics.create(f"{group.id}-configs", config={"cleanup.policy": "compact"})
    topic, wrong_topic = topics.create(), topics.create()
    config = properties(name, topic, {"tasks.max": 2, "limit": 50})
    with group.worker() as worker:
        assert worker.request("PUT", f"/connectors/{name}/config", config).status == 201
        for limit in range(51, 51 + CHANGES):
            config["limit"] = str(limit)
            assert worker.request("PUT", f"/connectors/{name}/config", config).status == 200
        with group.worker() as late:
            late.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING")
            assert late.get(f"/connectors/{name}/config") == config
            assert [task["config"]["limit"] for task in late.get(f"/connectors/{name}/tasks")] == [config["limit"]] * 2
    configs = [record for record in read_topic(bootstrap_servers, config_topic) if b"connector-" in (record.key or b"")]
    assert len(configs) > CHANGES

    alter(bootstrap_servers, config_topic, SOON_COMPACTED)
    # A leader died between the new task configurations and the record that says that they are complete.
    other = properties(name, wrong_topic, {"limit": 7})
    half = {f"task-{name}-{task}": {"properties": {**other, "task.id": str(task)}} for task in (0, 1)}
    produce(bootstrap_servers, config_topic, half)

    def is_compacted() -> bool:
        # Write another record: a segment is only closed by a later record.
        produce(bootstrap_servers, config_topic, {"logger-cluster-compaction": {"level": "INFO"}})
        keys = Counter((record.key or b"").decode() for record in read_topic(bootstrap_servers, config_topic))
        return max(count for key, count in keys.items() if name in key) == 1

    wait_for(is_compacted, what="only the last record of each key is left")

    with group.worker() as worker:
        worker.wait_for_states(name, "RUNNING", "RUNNING", "RUNNING")
        assert worker.get(f"/connectors/{name}/config") == config
        tasks = worker.get(f"/connectors/{name}/tasks")
        assert [task["config"]["topic"] for task in tasks] == [topic, topic]
        limit = int(config["limit"])
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 2 * limit, what="everything is written")
    found = values(read_topic(bootstrap_servers, topic))
    for task in (0, 1):
        assert_exactly_once(seqs(found, name, task), range(1, limit + 1))
    assert read_topic(bootstrap_servers, wrong_topic) == []


def test_a_worker_does_not_start_over_a_config_topic_of_several_partitions(
    tmp_path: Path, bootstrap_servers: str, topics: Topics
) -> None:
    group = Group(tmp_path, bootstrap_servers)
    config_topic = topics.create(f"{group.id}-configs", partitions=2, config={"cleanup.policy": "compact"})
    with group.starting() as worker:
        assert worker.process.wait() == 2
        assert f"The config topic {config_topic} has 2 partitions and must have exactly 1" in worker.process.output
