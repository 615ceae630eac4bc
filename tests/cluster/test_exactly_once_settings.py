"""A worker's exactly-once settings: the refused ones with their property, and the ones without effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fencepost import ConnectorTransactionBoundaries, ExactlyOnceSupport
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.local_workers import LocalWorkers
from tests.support.processes import wait_for
from tests.support.sequence_source import SequenceConnector, properties, seqs
from tests.support.workers import Answer, Group, WorkerApi

SUPPORT, BOUNDARY, INTERVAL = "exactly.once.support", "transaction.boundary", "transaction.boundary.interval.ms"
ANSWERS = {"no": ("UNSUPPORTED", "UNSUPPORTED"), "yes": ("SUPPORTED", "SUPPORTED"), "silent": (None, None)}


class AnsweringConnector(SequenceConnector):
    """Gives the answers in its configuration when a worker asks it about exactly-once support."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:  # type: ignore[override]
        answer, _ = self._answers(config)
        return None if answer is None else ExactlyOnceSupport[answer]

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        _, answer = self._answers(config)
        return None if answer is None else ConnectorTransactionBoundaries[answer]  # type: ignore[return-value]

    @staticmethod
    def _answers(config: Mapping[str, str]) -> tuple[str | None, str | None]:
        if config["answer"] not in ANSWERS:
            raise RuntimeError("there is no database")
        return ANSWERS[config["answer"]]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: Any) -> Group:
    # A transaction cannot be committed in a millisecond.
    return Group(tmp_path_factory.mktemp("settings"), broker.bootstrap_servers, offset_flush_timeout_ms="1")


@pytest.fixture(scope="module")
def workers(group: Group) -> Iterator[LocalWorkers]:
    with LocalWorkers(group) as workers:
        yield workers


@pytest.fixture(scope="module")
def worker(workers: LocalWorkers) -> WorkerApi:
    return workers.start(**{"producer.transactional.id": "the-workers"})


def answering(name: str, answer: str = "yes", **extra: Any) -> dict[str, str]:
    config = properties(name, "t", {SUPPORT: "requested", "answer": answer, **extra})
    return config | {"connector.class": f"{AnsweringConnector.__module__}.{AnsweringConnector.__name__}"}


def errors(worker: WorkerApi, config: dict[str, str]) -> dict[str, list[str]]:
    """The errors of a configuration's validation, by property."""
    plugin = config["connector.class"]
    answer = worker.request("PUT", f"/connector-plugins/{plugin}/config/validate", config)
    assert answer.status == 200
    found = {info["value"]["name"]: info["value"]["errors"] for info in answer.body["configs"]}
    return {name: messages for name, messages in found.items() if messages}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("silent", "Consult its documentation"),
        ("no", "cannot deliver exactly once"),
        ("broken", "there is no database"),
    ],
)
def test_required_relies_on_the_connectors_declaration(worker: WorkerApi, name: str, answer: str, said: str) -> None:
    found = errors(worker, answering(name, answer, **{SUPPORT: "required"}))

    assert list(found) == [SUPPORT]
    assert said in found[SUPPORT][0]
    assert errors(worker, answering(name, "yes", **{SUPPORT: "REQUIRED"})) == {}
    assert errors(worker, answering(name, answer)) == {}, "requested takes any connector"


def test_required_is_refused_by_workers_that_are_not_enabled(group: Group, broker: Any, name: str) -> None:
    for support in ("disabled", "preparing"):
        other = Group(group.folder, broker.bootstrap_servers, exactly_once_source_support=support)
        with LocalWorkers(other) as workers:
            found = errors(workers.start(), answering(name, **{SUPPORT: "required"}))
        assert list(found) == [SUPPORT]
        assert f"its exactly.once.source.support is {support}" in found[SUPPORT][0]


@pytest.mark.parametrize("answer", ["silent", "no", "broken"])
def test_boundaries_of_the_connector_need_its_declaration(worker: WorkerApi, name: str, answer: str) -> None:
    assert list(errors(worker, answering(name, answer, **{BOUNDARY: "connector"}))) == [BOUNDARY]
    assert errors(worker, answering(name, "yes", **{BOUNDARY: "connector"})) == {}
    assert errors(worker, answering(name, answer, **{BOUNDARY: "poll"})) == {}


def test_every_request_that_sets_a_configuration_checks_it(worker: WorkerApi, name: str) -> None:
    good = answering(name, limit=0)
    bad = {SUPPORT: "must", BOUNDARY: "now", INTERVAL: "-1", "offsets.storage.topic": " "}
    assert sorted(errors(worker, good | bad)) == sorted(bad)

    def refused(answer: Answer) -> None:
        assert answer.status == 400
        assert "invalid, with 4 error(s)" in answer.body["message"]

    refused(worker.request("POST", "/connectors", {"name": name, "config": good | bad}))
    refused(worker.request("PUT", f"/connectors/{name}/config", good | bad))
    assert worker.get(f"/connectors/{name}") is None
    assert worker.request("POST", "/connectors", {"name": name, "config": good}).status == 201
    refused(worker.request("PUT", f"/connectors/{name}/config", good | bad))
    refused(worker.request("PATCH", f"/connectors/{name}/config", bad))
    assert worker.get(f"/connectors/{name}/config") == good
    assert worker.request("PATCH", f"/connectors/{name}/config", {INTERVAL: "0"}).status == 200


def test_settings_that_would_break_a_transaction_are_ignored(
    worker: WorkerApi, group: Group, name: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap_servers = group.settings["bootstrap.servers"]
    overrides = {
        "producer.override.transactional.id": "my-own",
        "producer.override.enable.idempotence": "false",
        "consumer.override.isolation.level": "read_uncommitted",
    }
    config = properties(name, topic, {"limit": 30, **overrides})
    assert worker.request("POST", "/connectors", {"name": name, "config": config}).status == 201

    wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 30, what="everything is committed")
    assert_exactly_once(seqs(values(read_topic(bootstrap_servers, topic)), name), range(1, 31))
    (task,) = worker.get(f"/connectors/{name}/transactions")["tasks"]
    assert task["transactional_id"] == f"{group.id}-{name}-0"
    worker.wait_for_states(name, "RUNNING", "RUNNING")
    for override in overrides:
        assert f"The property {override}, set in connector {name}, is ignored" in caplog.text
