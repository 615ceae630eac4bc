"""One worker as tools for Kafka Connect see it: a separate process, its REST API, and its records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.errors import ProducerFencedError
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.metrics_page import documented_metrics
from tests.support.processes import wait_for
from tests.support.running_tasks import RunningTasks, create_sequence
from tests.support.sequence_source import properties, seqs
from tests.support.topics import Topics, unique
from tests.support.workers import Group, Worker
from tests.support.writing import open_producer, producer_config, write_in_transaction


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: Any) -> Group:
    return Group(
        tmp_path_factory.mktemp("single"),
        broker.bootstrap_servers,
        connector_client_config_override_policy="All",
        config_providers="files",
        config_providers_files_class="org.apache.kafka.common.config.provider.FileConfigProvider",
    )


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with group.worker(forked=False) as worker:
        yield worker


def told(worker: Worker) -> list[str]:
    """The lines that the worker logged at level INFO."""
    return [line for line in worker.process.output.splitlines() if " INFO " in line]


def test_a_connector_that_is_posted_runs_and_delivers_exactly_once(
    worker: Worker, group: Group, name: str, topic: str, bootstrap_servers: str
) -> None:
    create_sequence(worker, name, topic, tasks=2)

    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 100, what="both tasks wrote everything")
    found = values(read_topic(bootstrap_servers, topic))
    for task in (0, 1):
        assert_exactly_once(seqs(found, name, task), range(1, 51))
    assert len(read_offsets(bootstrap_servers, f"{group.id}-offsets", name)) == 2
    assert group.connector_records(name) == [
        ("connector-c", None),
        ("task-c-0", None),
        ("task-c-1", None),
        ("commit-c", {"tasks": 2}),
        ("tasks-fencing-c", {"task-count": 2}),
    ]
    wait_for(lambda: worker.get(f"/connectors/{name}/topics") == {name: {"topics": [topic]}})


def test_a_worker_whose_work_is_unchanged_logs_nothing(tmp_path: Path, bootstrap_servers: str, topic: str) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"0\n")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}

    def lines() -> list[bytes | None]:
        return values(read_topic(bootstrap_servers, topic))

    with Group(tmp_path, bootstrap_servers).worker(forked=False) as worker:
        assert worker.request("PUT", "/connectors/lines/config", config).status == 201
        worker.wait_for_states("lines", "RUNNING", "RUNNING")
        wait_for(lambda: lines() == [b"0"], what="the first line is delivered")
        said = told(worker)
        for number in range(1, 4):
            with file.open("ab") as end:
                end.write(b"%d\n" % number)
            wait_for(lambda number=number: lines()[-1] == b"%d" % number, what=f"line {number} is delivered")

        assert any("Task lines-0 is RUNNING" in line for line in said)
        assert told(worker) == said


def test_fewer_tasks_fence_the_earlier_ones_and_resume_from_their_positions(
    worker: Worker, group: Group, name: str, topic: str, bootstrap_servers: str
) -> None:
    config = create_sequence(worker, name, topic, tasks=2)
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 100, what="both tasks wrote everything")

    answer = worker.request("PUT", f"/connectors/{name}/config", config | {"tasks.max": "1", "limit": "70"})

    assert answer.status == 200
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 120, what="the first task went on")
    worker.wait_for_states(name, "RUNNING", "RUNNING")
    assert_exactly_once(seqs(values(read_topic(bootstrap_servers, topic)), name, 0), range(1, 71))
    assert group.connector_records(name)[-4:] == [
        ("connector-c", None),
        ("task-c-0", None),
        ("commit-c", {"tasks": 1}),
        ("tasks-fencing-c", {"task-count": 1}),
    ]


def test_the_same_configuration_again_leaves_the_tasks_alone(
    worker: Worker, group: Group, name: str, topic: str
) -> None:
    config = create_sequence(worker, name, topic)
    before = group.connector_records(name)

    assert worker.request("PUT", f"/connectors/{name}/config", config).status == 200

    # The pause is written behind all records that the first request caused.
    assert worker.request("PUT", f"/connectors/{name}/pause").status == 202
    worker.wait_for_states(name, "PAUSED", "PAUSED")
    expected = [*before, ("connector-c", None), ("target-state-c", {"state": "PAUSED", "state.v2": "PAUSED"})]
    assert group.connector_records(name) == expected


def test_a_worker_serves_every_documented_metric_and_no_other(
    worker: Worker, name: str, topic: str, bootstrap_servers: str
) -> None:
    create_sequence(worker, name, topic)
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 50, what="everything is written")
    families = list(text_string_to_metric_families(worker.text("/metrics")))

    suffixes = {"counter": "_total"}
    served = {f"{family.name}{suffixes.get(family.type, '')}": family.type for family in families}
    assert served == documented_metrics()
    without = [family.name for family in families if not family.samples]
    assert without == []
    values = {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("connector", name) == name
    }
    assert values["kafka_connect_source_task_source_record_write_total"] == 50
    assert values["kafka_connect_worker_connector_running_task_count"] == 1
    assert values["kafka_connect_coordinator_assigned_tasks"] >= 1
    assert values["kafka_connect_coordinator_heartbeat_total"] > 0
    assert values["kafka_connect_coordinator_join_total"] > 0
    assert values["kafka_connect_coordinator_sync_total"] > 0
    assert values["fencepost_fencing_duration_seconds_count"] == values["fencepost_fencing_rounds_total"] > 0
    # Other tests of this worker make some rounds fail.
    assert values["fencepost_fencing_failures_total"] < values["fencepost_fencing_rounds_total"]


def test_an_offset_within_a_row_of_a_file_is_refused_with_the_reason(
    worker: Worker, name: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "rows"
    file.write_text("one\ntwo\n")
    config = {"connector.class": "FileSource", "files": str(file), "format": "text", "topic": topic}
    body = {"name": name, "config": config, "initial_state": "STOPPED"}
    assert worker.request("POST", "/connectors", body).status == 201
    worker.wait_for_states(name, "STOPPED")

    def offsets(position: int) -> dict[str, Any]:
        return {"offsets": [{"partition": {"filename": str(file)}, "offset": {"position": position}}]}

    answer = worker.request("PATCH", f"/connectors/{name}/offsets", offsets(5))
    assert (answer.status, "The position 5 is within a row" in answer.body["message"]) == (400, True), answer
    assert worker.request("PATCH", f"/connectors/{name}/offsets", offsets(4)).status == 200
    [stored] = worker.get(f"/connectors/{name}/offsets")["offsets"]
    assert (stored["partition"], stored["offset"]["position"]) == ({"filename": str(file)}, 4)
    assert json.loads(stored["offset"]["identity"])["inode"] == file.stat().st_ino


def test_a_stopped_connector_has_no_tasks_and_its_offsets_can_be_changed(
    worker: Worker, group: Group, name: str, topic: str, bootstrap_servers: str
) -> None:
    create_sequence(worker, name, topic)
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 50, what="everything is written")
    partition = {"task.id": f"{name}-0"}
    offsets = {"offsets": [{"partition": partition, "offset": {"saved": 40}}]}
    assert worker.request("PATCH", f"/connectors/{name}/offsets", offsets).status == 400

    assert worker.request("PUT", f"/connectors/{name}/stop").status == 204
    worker.wait_for_states(name, "STOPPED")
    too_large = {"offsets": [{"partition": partition, "offset": {"saved": "x" * 2_000_000}}]}
    assert worker.request("PATCH", f"/connectors/{name}/offsets", too_large).status == 400
    answer = worker.request("PATCH", f"/connectors/{name}/offsets", offsets)

    assert answer.status == 200, answer
    assert worker.get(f"/connectors/{name}/offsets") == offsets
    assert group.connector_records(name)[-3:] == [
        ("commit-c", {"tasks": 0}),
        ("target-state-c", {"state": "PAUSED", "state.v2": "STOPPED"}),
        ("tasks-fencing-c", {"task-count": 0}),
    ]
    # A restart of a stopped connector leaves it STOPPED.
    assert worker.request("POST", f"/connectors/{name}/restart").status == 204
    answer = worker.request("POST", f"/connectors/{name}/restart?includeTasks=true")
    assert (answer.status, answer.body["connector"]["state"], answer.body["tasks"]) == (202, "RESTARTING", [])
    worker.wait_for_states(name, "STOPPED")
    assert worker.request("PUT", f"/connectors/{name}/resume").status == 202
    worker.wait_for_states(name, "RUNNING", "RUNNING")
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 60, what="ten records are written again")
    assert sorted(seqs(values(read_topic(bootstrap_servers, topic)), name)) == [
        *range(1, 41),
        *sorted([*range(41, 51)] * 2),
    ]


def test_a_running_connector_that_gets_its_own_offsets_topic_reads_nothing_again(
    worker: Worker, name: str, topic: str, bootstrap_servers: str
) -> None:
    config = create_sequence(worker, name, topic)
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 50, what="the first offsets are committed")
    own = unique("own")
    config |= {"limit": "80", "offsets.storage.topic": own}
    assert worker.request("PUT", f"/connectors/{name}/config", config).status == 200
    partition = {"task.id": f"{name}-0"}
    shown = {"offsets": [{"partition": partition, "offset": {"saved": 80}}]}
    wait_for(lambda: worker.get(f"/connectors/{name}/offsets") == shown, what="the rest is committed")
    assert seqs(values(read_topic(bootstrap_servers, topic)), name) == list(range(1, 81))
    assert read_offsets(bootstrap_servers, own, name) == [(partition, {"saved": 80})]


def test_an_offsets_topic_that_is_not_compacted_fails_the_connector_with_the_remedy(
    worker: Worker, name: str, topics: Topics
) -> None:
    own = topics.create(config={"cleanup.policy": "delete"})
    config = properties(name, "t", {"offsets.storage.topic": own})
    assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201
    worker.wait_for_states(name, "FAILED")
    remedy = f"Topic {own} exists with cleanup.policy=delete"
    assert remedy in worker.get(f"/connectors/{name}/status")["connector"]["trace"]
    answer = worker.request("GET", f"/connectors/{name}/offsets")
    assert (answer.status, remedy in answer.body["message"]) == (400, True)


def test_offsets_in_another_cluster_are_changed_once_zombies_there_are_fenced(
    worker: Worker, group: Group, name: str, other_broker: EmbeddedBroker
) -> None:
    """The connector has two tasks, each with a zombie that has written uncommitted records."""
    there = other_broker.bootstrap_servers
    topic = Topics(there).create()
    create_sequence(worker, name, topic, tasks=2, **{"producer.override.bootstrap.servers": there})
    wait_for(lambda: len(worker.get(f"/connectors/{name}/offsets")["offsets"]) == 2, what="both tasks have committed")
    assert worker.request("PUT", f"/connectors/{name}/stop").status == 204
    worker.wait_for_states(name, "STOPPED")
    partitions = [{"task.id": f"{name}-{number}"} for number in range(2)]
    with ExitStack() as stack:
        zombies = [
            stack.enter_context(open_producer(producer_config(there), f"{group.id}-{name}-{number}"))
            for number in range(2)
        ]
        for zombie in zombies:
            zombie.begin_transaction()
            write_in_transaction(zombie, topic, [b"a zombie's"])
        altered = {"offsets": [{"partition": partitions[0], "offset": {"saved": 40}}]}

        answer = worker.request("PATCH", f"/connectors/{name}/offsets", altered)

        assert answer.status == 200, answer
        for zombie in zombies:
            with pytest.raises(ProducerFencedError):
                zombie.commit_transaction()
    saved = [(partitions[0], {"saved": 40}), (partitions[1], {"saved": 50})]
    shown = worker.get(f"/connectors/{name}/offsets")["offsets"]
    assert sorted(((entry["partition"], entry["offset"]) for entry in shown), key=str) == saved
    for servers in (there, group.settings["bootstrap.servers"]):
        wait_for(
            lambda servers=servers: sorted(read_offsets(servers, f"{group.id}-offsets", name), key=str) == saved,
            what="the offsets are in both clusters",
        )
    assert b"a zombie's" not in values(read_topic(there, topic))


def test_a_failed_task_shows_its_trace_and_is_restarted_by_hand(
    worker: Worker, group: Group, name: str, topics: Topics
) -> None:
    own = topics.create(config={"cleanup.policy": "compact"})
    config = properties(name, own, {"limit": 1, "offsets.storage.topic": own})
    assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201
    worker.wait_for_states(name, "RUNNING", "FAILED")
    status = worker.get(f"/connectors/{name}/tasks/0/status")
    assert "holds its own source offsets" in status["trace"]

    answer = worker.request("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")

    assert (answer.status, answer.body["connector"]["state"]) == (202, "RUNNING")
    assert [task["state"] for task in answer.body["tasks"]] == ["RESTARTING"]
    restarts = [key for key, _ in group.connector_records(name) if key == "restart-connector-c"]
    assert len(restarts) == 1
    worker.wait_for_states(name, "RUNNING", "FAILED")


def test_a_task_fenced_by_a_foreign_client_restarts_while_assigned_here(
    worker: Worker, group: Group, bootstrap_servers: str
) -> None:
    tasks = RunningTasks(group, bootstrap_servers, count=1)
    tasks.create(worker)
    tasks.wait_until_shared(worker)

    # librdkafka's producer would not do: it retries every half second during an open transaction, and fences each time.
    with Admin(ClientConfig((bootstrap_servers,))) as stranger:
        stranger.fence_producers([f"{group.id}-{tasks.name}-0"]).all()

    worker.process.wait_for_output(f"took over the transactional id {group.id}-{tasks.name}-0")
    tasks.wait_until_shared(worker)
    tasks.assert_exactly_once(worker)
    assert worker.request("DELETE", f"/connectors/{tasks.name}").status == 204


def test_a_deleted_connector_leaves_nothing_but_its_offsets(
    worker: Worker, group: Group, name: str, topic: str, bootstrap_servers: str
) -> None:
    create_sequence(worker, name, topic)
    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 50, what="everything is written")

    assert worker.request("DELETE", f"/connectors/{name}").status == 204

    assert worker.request("GET", f"/connectors/{name}/status").status == 404
    assert group.connector_records(name)[-2:] == [("connector-c", None), ("target-state-c", None)]
    wait_for(lambda: group.status_keys(name) == set(), what="all statuses are removed")
    ((_, offset),) = read_offsets(bootstrap_servers, f"{group.id}-offsets", name)
    assert offset == {"saved": 50}


def test_values_of_config_providers_are_used_and_never_stored(
    worker: Worker, group: Group, name: str, topic: str, bootstrap_servers: str
) -> None:
    secrets = group.folder / "secrets.properties"
    secrets.write_text(f"topic={topic}\npassword=hunter2\n")
    given = {"topic": f"${{files:{secrets}:topic}}", "password": f"${{files:{secrets}:password}}"}

    create_sequence(worker, name, given["topic"], password=given["password"])

    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 50, what="the task writes to the topic it was told")
    shown = [worker.get(f"/connectors/{name}/config"), worker.get(f"/connectors/{name}/tasks")[0]["config"]]
    assert [{key: config[key] for key in given} for config in shown] == [given, given]
    stored = [record.value or b"" for record in read_topic(bootstrap_servers, f"{group.id}-configs")]
    assert not [value for value in stored if b"hunter2" in value]
    assert "hunter2" not in worker.process.output


def test_a_connector_whose_flush_hangs_keeps_no_other_waiting(
    worker: Worker, name: str, topics: Topics, fault_proxy: FaultProxy
) -> None:
    """The brokers of one connector accept its records but do not answer."""
    hanging, other = f"{name}-hanging", f"{name}-other"
    own = {"producer.override.bootstrap.servers": fault_proxy.address}
    flush = fault_proxy.on_response(ApiKey.PRODUCE, Act.HOLD)
    create_sequence(worker, hanging, topics.create(), **own)
    flush.wait()

    create_sequence(worker, other, topics.create())
    wait_for(lambda: worker.get(f"/connectors/{other}/offsets")["offsets"], what="the other one commits")
    assert worker.request("PUT", f"/connectors/{other}/pause").status == 202
    worker.wait_for_states(other, "PAUSED", "PAUSED")
    assert worker.request("DELETE", f"/connectors/{hanging}").status == 204
    assert worker.request("PUT", f"/connectors/{other}/resume").status == 202
    worker.wait_for_states(other, "RUNNING", "RUNNING")
    assert worker.get("/connectors") == [other]
