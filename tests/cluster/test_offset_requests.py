"""Somebody's transaction in the offsets topic of connectors, for which all who read it wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.runtime import connector_offsets
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore
from tests.support.confluent import transactional_producer
from tests.support.local_workers import LocalWorkers
from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.topics import Topics, unique
from tests.support.workers import Group

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
        # By itself, as the failure is retriable.
        worker.wait_for_states(started, "RUNNING", "RUNNING")
