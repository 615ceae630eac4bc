"""Open transactions of Java tasks: where they are shown, and a task whose transaction is aborted by another client."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import main
from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import read_topic, values
from tests.support.java_connectors import Connectors, java_group_worker
from tests.support.java_plugins import HOSTILE, plugin_path
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

LONG = "org.apache.kafka.connect.converters.LongConverter"
OPEN, LIMIT = 3, 6

Abort = Callable[[str], None]


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Group:
    folder = tmp_path_factory.mktemp("java")
    return Group(folder, broker.bootstrap_servers, plugin_path=str(plugin_path(folder, "hostile")))


@pytest.fixture(scope="module")
def worker(group: Group) -> Iterator[Worker]:
    with java_group_worker(group) as worker:
        yield worker


class Waiting:
    """A connector whose task waits in an open transaction until `go_on`."""

    def __init__(self, connectors: Connectors, topic: str, gate: Path, more: dict[str, str]) -> None:
        self.topic = topic
        self._gate = gate
        self.worker = connectors.worker
        config = {"transaction.boundary": "connector", "exactly.once.support": "required", "gate": str(gate), **more}
        numbers = {"limit": str(LIMIT), "boundaries": str(LIMIT), "value.converter": LONG}
        self.name = connectors.hostile(topic, "", **config, **numbers)
        self.worker.wait_for_states(self.name, "RUNNING", "RUNNING")
        wait_for(lambda: self.here()["open_records"] == OPEN, what="the transaction has its records")

    def go_on(self) -> None:
        self._gate.touch()

    def here(self) -> Any:
        """The page's data about the task on this worker, with its last transactions."""
        (task,) = self.worker.get(f"/ui/api/here?connector={self.name}")["tasks"]
        return task


@pytest.fixture
def waiting(connector: Connectors, topics: Topics, tmp_path: Path, notes: dict[str, str]) -> Waiting:
    return Waiting(connector, topics.create(), tmp_path / "gate", notes)


def abort_by_command(bootstrap_servers: str, transactional_id: str) -> None:
    assert main.run(["transactions", "abort", "--bootstrap-server", bootstrap_servers, transactional_id]) == 0


@pytest.fixture(params=["by the command", "on the page"])
def abort(request: pytest.FixtureRequest, worker: Worker, bootstrap_servers: str) -> Abort:
    def abort(transactional_id: str) -> None:
        if request.param == "by the command":
            abort_by_command(bootstrap_servers, transactional_id)
        else:
            assert worker.request("PUT", f"/ui/api/transactions/{transactional_id}/abort").status == 204

    return abort


def numbers(bootstrap_servers: str, topic: str, isolation: str = "read_committed") -> list[int]:
    found = values(read_topic(bootstrap_servers, topic, isolation=isolation))
    return [int.from_bytes(value or b"") for value in found]


@pytest.mark.parametrize("notes", [False], indirect=True)
def test_the_open_transaction_of_a_java_task_is_shown_with_its_owner(
    worker: Worker, group: Group, waiting: Waiting, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
):
    transactional_id = f"{group.id}-{waiting.name}-0"
    (own,) = worker.get(f"/connectors/{waiting.name}/transactions")["tasks"]
    assert (own["state"], own["transactional_id"], own["records"]) == ("IN_TRANSACTION", transactional_id, OPEN)
    topic = worker.get(f"/ui/api/topics/{waiting.topic}")
    (hiding,) = topic["transactions"]
    assert (hiding["transactional_id"], hiding["connector"], hiding["task"]) == (transactional_id, waiting.name, 0)
    assert [(each["stable"], each["end"]) for each in topic["partitions"]] == [(0, OPEN)]
    capsys.readouterr()
    where = ["--bootstrap-server", bootstrap_servers, "--group", group.id, "-o", "json"]
    assert main.run(["transactions", "list", *where]) == 0
    listed = {each["transactional_id"]: each for each in json.loads(capsys.readouterr().out)}
    assert listed[transactional_id]["partitions"] == [{"topic": waiting.topic, "partition": 0}]
    assert listed[transactional_id]["producer_id"] == own["producer_id"] == hiding["producer_id"]


def test_a_java_task_whose_transaction_is_aborted_reads_its_records_again(
    group: Group, waiting: Waiting, abort: Abort, notes: dict[str, str], bootstrap_servers: str
):
    worker = waiting.worker
    abort(f"{group.id}-{waiting.name}-0")
    assert worker.get(f"/ui/api/topics/{waiting.topic}")["transactions"] == []
    waiting.go_on()
    expected = list(range(1, LIMIT + 1))
    wait_for(lambda: numbers(bootstrap_servers, waiting.topic) == expected, what="all numbers, once")
    # The aborted transaction had the first numbers, too.
    assert numbers(bootstrap_servers, waiting.topic, "read_uncommitted") == [*expected[:OPEN], *expected]
    worker.wait_for_states(waiting.name, "RUNNING", "RUNNING")
    ended = waiting.here()["ended"]
    assert [(each["records"], each["end"]) for each in ended][-1] == (LIMIT, "COMMITTED")
    if notes:
        noted = [f"{number} {waiting.topic}" for number in expected]
        # The task creates the file with its first note, after the commit.
        file = Path(notes["notes"])
        wait_for(lambda: file.exists() and file.read_text().splitlines() == noted, what="each record is noted once")


def events(worker: Worker) -> Iterator[dict[str, Any]]:
    """The events that a browser gets. It reconnects when a stream ends."""
    while True:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", worker.port, timeout=60)) as connection:
            connection.request("GET", "/ui/api/events")
            response = connection.getresponse()
            assert response.getheader("Content-Type", "").startswith("text/event-stream")
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))


def test_events_tell_what_becomes_of_a_java_connector(
    worker: Worker, connector: Connectors, topics: Topics, tmp_path: Path
):
    with contextlib.closing(events(worker)) as told:
        first = next(told)
        waiting = Waiting(connector, topics.create(), tmp_path / "gate", {})
        assert (first["whole"], first["worker_id"], waiting.name in first["rows"]) == (True, worker.id, False)

        def row(field: str, value: object) -> Any:
            found = next(told)["rows"].get(waiting.name)
            return found if found is not None and found[field] == value else None

        opened = wait_for(lambda: row("open_records", OPEN), what="the event of the open transaction")
        assert (opened["class"], opened["state"], opened["records"]) == (HOSTILE, "RUNNING", 0)
        assert [(each["id"], each["state"]) for each in opened["tasks"]] == [(0, "RUNNING")]
        waiting.go_on()
        committed = wait_for(lambda: row("records", LIMIT), what="the event of the commit")
        assert (committed["transactions"], committed["open_records"], committed["open_since"]) == (1, 0, None)
        connector.close()

        def is_gone() -> bool:
            event = next(told)
            rows = event["rows"]
            # The first event of a new stream lists existing connectors only.
            return rows[waiting.name] is None if waiting.name in rows else event.get("whole", False)

        wait_for(is_gone, what="the event of the removal")


def test_failures_of_a_java_connector_are_events(worker: Worker, connector: Connectors, topics: Topics):
    with contextlib.closing(events(worker)) as told:
        next(told)
        name = connector.hostile(topics.create(), "throw in task.poll", **{"task.restart.policy": "never"})

        def failed() -> Any:
            found = next(told)["rows"].get(name)
            return found if found is not None and found["error"] else None

        row = wait_for(failed, what="the event of the failure")
    assert "java.lang.IllegalStateException: the source is gone" in row["error"]
    assert [each["state"] for each in row["tasks"]] == ["FAILED"]


def test_the_worker_shows_its_java_tasks_and_keeps_their_rates(worker: Worker, connector: Connectors, topics: Topics):
    name = connector.hostile(topics.create(), "", limit=str(LIMIT))

    def task() -> Any:
        found = worker.get("/ui/api/here")
        assert found["worker"]["started"] > 0
        tasks = {(each["connector"], each["task"]): each for each in found["tasks"]}
        return tasks.get((name, 0))

    wait_for(lambda: (found := task()) is not None and found["records"] == LIMIT, what="all records are counted")
    assert task().keys() >= {"bytes", "transactions", "last_commit", "lag", "restarts"}
    assert "ended" not in task()
    (alone,) = worker.get(f"/ui/api/here?connector={name}")["tasks"]
    assert sum(each["records"] for each in alone["ended"]) == LIMIT

    def rates(path: str) -> list[float]:
        return [rate for _, rate, _ in worker.get(path)["history"]]

    here = f"/ui/api/here/history?connector={name}"
    wait_for(lambda: any(rates(here)), what="the figures of a step are kept")
    everywhere = f"/ui/api/connectors/{name}/history"
    wait_for(lambda: rates(everywhere) == rates(here), what="the figures of all workers are the same ones")
