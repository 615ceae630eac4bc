"""Changes of offsets that meet others: at the same time, by another worker, or an open transaction in the topic."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.runtime import connector_offsets
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore
from tests.support.checker import read_topic, values
from tests.support.confluent import transactional_producer
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.local_workers import LocalWorkers
from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.topics import Topics, unique
from tests.support.workers import Answer, Group
from tests.support.writing import open_producer, producer_config

_WAITING_MS = 500
_SECONDS = 60


def test_requests_and_tasks_name_the_open_transaction_they_wait_for(
    tmp_path: Path, bootstrap_servers: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, stranger = topics.create(config={"cleanup.policy": "compact"}), unique("stranger")
    started, stopped = unique("started"), unique("stopped")
    path = f"/connectors/{stopped}/offsets"
    offsets = {"offsets": [{"partition": {"task.id": f"{stopped}-0"}, "offset": {"saved": 7}}]}
    producer = transactional_producer(bootstrap_servers, stranger, transaction_timeout_ms=900_000)
    producer.begin_transaction()
    producer.produce(own, b"not committed", key=b"a key")
    assert producer.flush(_SECONDS) == 0
    with LocalWorkers(Group(tmp_path, bootstrap_servers)) as workers:
        worker = workers.start()

        def names_it(text: str) -> bool:
            whose = f"the transaction of transactional id {stranger} (producer id "
            return whose in text and "run `fencepost transactions abort` with that id" in text

        def is_refused(method: str, content: object) -> bool:
            answer = worker.request(method, path, content)
            assert answer.status == 500, answer
            return names_it(answer.body["message"])

        with monkeypatch.context() as hasty:
            hasty.setattr(connector_offsets, "READING_MS", _WAITING_MS)
            hasty.setattr(ConnectorOffsetStore.refresh, "__defaults__", (_WAITING_MS,))
            for name, state in (started, "RUNNING"), (stopped, "STOPPED"):
                config = properties(name, topics.create(), {"offsets.storage.topic": own})
                body = {"name": name, "config": config, "initial_state": state}
                assert worker.request("POST", "/connectors", body).status == 201
            for method, content in ("GET", None), ("PATCH", offsets), ("DELETE", None):
                wait_for(lambda method=method, content=content: is_refused(method, content), what=f"{method} names it")
            worker.wait_for_states(started, "RUNNING", "RESTARTING")
            assert names_it(worker.get(f"/connectors/{started}/tasks/0/status")["trace"])

        with Admin(ClientConfig((bootstrap_servers,))) as admin:
            admin.abort_transaction(stranger)
        assert worker.request("PATCH", path, offsets).status == 200
        assert worker.get(path) == offsets
        # The connector restarts automatically, because the failure is retriable.
        worker.wait_for_states(started, "RUNNING", "RUNNING")


def test_changes_of_offsets_that_come_at_once_are_done_one_after_the_other(
    tmp_path: Path, bootstrap_servers: str, topics: Topics
) -> None:
    """Half of them come to the leader, and half to the other worker."""
    group, name = Group(tmp_path, bootstrap_servers), unique("stopped")
    path = f"/connectors/{name}/offsets"
    with group.workers(2) as workers:
        body = {"name": name, "config": properties(name, topics.create()), "initial_state": "STOPPED"}
        assert workers[0].request("POST", "/connectors", body).status == 201
        for worker in workers:
            worker.wait_for_states(name, "STOPPED")

        def altered(number: int) -> Answer:
            offset = {"partition": {"task.id": f"{name}-0"}, "offset": {"saved": number}}
            return workers[number % 2].request("PATCH", path, {"offsets": [offset]})

        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(altered, range(1, 7)))
            assert [answer.status for answer in answers] == [200] * 6, answers
            stored = values(read_topic(bootstrap_servers, f"{group.id}-offsets"))
            assert sorted(stored, key=str) == [b'{"saved":%d}' % number for number in range(1, 7)]

            resets = list(pool.map(lambda worker: worker.request("DELETE", path), [*workers, *workers]))
            assert [answer.status for answer in resets] == [200] * 4, resets
        for worker in workers:
            assert worker.get(path) == {"offsets": []}


def test_a_change_of_offsets_that_another_producer_fences_may_be_sent_again(
    tmp_path: Path, bootstrap_servers: str, topics: Topics, fault_proxy: FaultProxy
) -> None:
    """As when the leader is replaced meanwhile, and the next one changes the offsets, or starts the connector."""
    group, name = Group(tmp_path, bootstrap_servers, session_timeout_ms="60000"), unique("stopped")
    path = f"/connectors/{name}/offsets"
    offsets = {"offsets": [{"partition": {"task.id": f"{name}-0"}, "offset": {"saved": 7}}]}
    with LocalWorkers(group) as workers, ThreadPoolExecutor(1) as pool:
        worker = workers.start(bootstrap_servers=fault_proxy.address)
        body = {"name": name, "config": properties(name, topics.create()), "initial_state": "STOPPED"}
        assert worker.request("POST", "/connectors", body).status == 201
        # The earlier tasks are fenced first, so the next EndTxn ends the transaction of the offsets.
        assert worker.request("PATCH", path, offsets).status == 200
        for method, content in ("PATCH", offsets), ("DELETE", None):
            trap = fault_proxy.on_request(ApiKey.END_TXN, Act.HOLD)
            waiting = pool.submit(worker.request, method, path, content)
            trap.wait()
            with open_producer(producer_config(bootstrap_servers), f"{group.id}-{name}-0"):
                trap.release()
                answer = waiting.result()
            assert answer.status == 409, answer
            said = answer.body["message"]
            assert f"The change of the offsets of connector {name} was interrupted" in said
            assert "another worker of the group changed its offsets" in said
            assert "Look at its offsets (GET), and send the request again if they are not as wanted" in said
            assert "task" not in said
            assert worker.get(path) == offsets
            assert worker.request(method, path, content).status == 200


def test_a_change_of_offsets_with_an_unknown_outcome_is_not_said_to_have_failed(
    tmp_path: Path, bootstrap_servers: str, topics: Topics, fault_proxy: FaultProxy
) -> None:
    group, name = Group(tmp_path, bootstrap_servers, session_timeout_ms="60000"), unique("stopped")
    path = f"/connectors/{name}/offsets"
    offsets = {"offsets": [{"partition": {"task.id": f"{name}-0"}, "offset": {"saved": 7}}]}
    with LocalWorkers(group) as workers:
        worker = workers.start(bootstrap_servers=fault_proxy.address)
        config = properties(name, topics.create(), {"producer.override.max.block.ms": 5000})
        body = {"name": name, "config": config, "initial_state": "STOPPED"}
        assert worker.request("POST", "/connectors", body).status == 201
        # The earlier tasks are fenced first, so the next EndTxn ends the transaction of the offsets.
        assert worker.request("DELETE", path).status == 200
        trap = fault_proxy.on_request(ApiKey.END_TXN, Act.HOLD)
        answer = worker.request("PATCH", path, offsets)
        trap.release()
        assert answer.status == 500, answer
        said = answer.body["message"]
        assert f"It is not known whether the offsets of connector {name} are changed" in said
        assert "Look at its offsets (GET)" in said
        assert worker.request("PATCH", path, offsets).status == 200
        assert worker.get(path) == offsets
