"""A group in which only one of two workers has the jars of a Java connector, with and without a built-in one of its name."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.java_connectors import with_java
from tests.support.java_plugins import FILE_STREAM, HOSTILE, plugin_path
from tests.support.postgres import Database
from tests.support.processes import wait_for
from tests.support.sequence_source import properties
from tests.support.topics import Topics, unique
from tests.support.workers import Group, Worker

JAVA_TASK = "io.debezium.connector.postgresql.PostgresConnectorTask"
PYTHON_TASK = "fencepost.connectors.postgres.changes.task.PostgresSourceTask"

# Two workers and several JVMs are started one after the other.
pytestmark = pytest.mark.timeout(600)


class Mixed:
    """A worker with the jars of a plugin, and one without, in one group. Each can be stopped and started."""

    def __init__(self, group: Group, plugins: Path, stack: ExitStack) -> None:
        self._group = group
        self._plugins = plugins
        self._stack = stack
        self._fillers = 0

    def start_with_jars(self) -> Worker:
        return self._started(with_java(self._group, plugin_path=str(self._plugins)))

    def start_without_jars(self) -> Worker:
        return self._started(self._group.starting())

    def _started(self, starting: AbstractContextManager[Worker]) -> Worker:
        worker = self._stack.enter_context(starting)
        worker.wait_until_healthy()
        return worker

    @staticmethod
    def stop(worker: Worker) -> None:
        """End a worker as its owner does."""
        worker.process.signal(signal.SIGTERM)
        assert worker.process.wait() == 0, worker.process.output

    def fill(self, worker: Worker, other: Worker, topic: str) -> None:
        """Create connectors so that `worker` gets the next connector, and `other` its task."""
        for _ in range(2):
            if self._fill(worker, topic) == (other.id, worker.id):
                return
        raise AssertionError("no connector came to the other worker")

    def _fill(self, worker: Worker, topic: str) -> tuple[str, str]:
        self._fillers += 1
        name = f"filler-{self._fillers}"
        body = {"name": name, "config": properties(name, topic, {"limit": 1})}
        assert worker.request("POST", "/connectors", body).status == 201
        worker.wait_for_states(name, "RUNNING", "RUNNING")
        status = worker.get(f"/connectors/{name}/status")
        return status["connector"]["worker_id"], status["tasks"][0]["worker_id"]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def places(worker: Worker, name: str) -> list[tuple[str, str]]:
    """The state and the worker of a connector and of its tasks, according to one worker."""
    status = worker.get(f"/connectors/{name}/status")
    return (
        [] if status is None else [(one["state"], one["worker_id"]) for one in (status["connector"], *status["tasks"])]
    )


def wait_for_places(worker: Worker, name: str, *expected: tuple[str, Worker]) -> None:
    at = [(state, owner.id) for state, owner in expected]
    wait_for(lambda: places(worker, name) == at, what=f"{name} is {at}")


def trace(worker: Worker, name: str) -> str:
    return str(worker.get(f"/connectors/{name}/status")["tasks"][0].get("trace", ""))


class Rows:
    """A table whose rows Debezium's connector sends, each of them once."""

    def __init__(
        self, config: dict[str, str], connection: psycopg.Connection[Any], topics: Topics, servers: str
    ) -> None:
        self.config = config
        self._connection = connection
        self._servers = servers
        self._topic = topics.create(f"{config['topic.prefix']}.public.items")
        self._written = 0
        connection.execute("create table items (id bigint primary key)")

    def write(self) -> None:
        for number in range(self._written, self._written + 20):
            self._connection.execute("insert into items values (%s)", [number])
        self._written += 20

    def found(self) -> list[bytes | None]:
        return [record.key for record in read_topic(self._servers, self._topic)]

    def wait_until_sent(self) -> None:
        wait_for(lambda: len(self.found()) >= self._written, what=f"{self._written} rows")

    def assert_exactly_once(self) -> None:
        assert_exactly_once(self.found(), [b'{"id":%d}' % number for number in range(self._written)])

    def slots(self) -> list[Any]:
        return self._connection.execute(
            "select slot_name from pg_replication_slots where slot_name = %s", [self.config["slot.name"]]
        ).fetchall()


@pytest.fixture
def rows(debezium: dict[str, str], database: Database, topics: Topics, bootstrap_servers: str) -> Iterator[Rows]:
    with closing(database.connect()) as connection:
        yield Rows(debezium, connection, topics, bootstrap_servers)


def test_a_task_in_java_waits_for_a_worker_that_has_its_jars(
    rows: Rows, topics: Topics, tmp_path: Path, bootstrap_servers: str, stack: ExitStack
):
    mixed = Mixed(Group(tmp_path, bootstrap_servers), plugin_path(tmp_path, "debezium-postgres"), stack)
    jars = mixed.start_with_jars()
    none = mixed.start_without_jars()
    mixed.fill(jars, none, topics.create())
    name = unique("rows")
    rows.write()
    assert jars.request("PUT", f"/connectors/{name}/config", rows.config).status == 201
    wait_for_places(jars, name, ("RUNNING", jars), ("FAILED", none))

    said = trace(jars, name)
    assert JAVA_TASK in said
    assert PYTHON_TASK in said
    assert "Put the same jars into plugin.path of each worker of the group" in said
    assert jars.request("POST", f"/connectors/{name}/restart?includeTasks=true").status == 202
    wait_for_places(jars, name, ("RUNNING", jars), ("FAILED", none))
    assert (rows.found(), rows.slots()) == ([], [])

    mixed.stop(none)
    wait_for_places(jars, name, ("RUNNING", jars), ("RUNNING", jars))
    rows.write()
    rows.wait_until_sent()

    # The worker without the jars is alone, and makes configurations for its own task, which has the other's offsets.
    none = mixed.start_without_jars()
    mixed.stop(jars)
    of_debezium = "was written by Debezium's connector in Java"
    wait_for(lambda: of_debezium in trace(none, name), what="the task with the other's offsets fails")
    assert places(none, name) == [("RUNNING", none.id), ("FAILED", none.id)]
    assert "put the same jars into plugin.path of each worker of the group" in trace(none, name)
    rows.write()

    jars = mixed.start_with_jars()
    mixed.stop(none)
    wait_for_places(jars, name, ("RUNNING", jars), ("RUNNING", jars))
    rows.write()
    rows.wait_until_sent()
    rows.assert_exactly_once()


def test_a_task_in_python_does_not_run_where_the_jars_are(
    rows: Rows, topics: Topics, tmp_path: Path, bootstrap_servers: str, stack: ExitStack
):
    """The worker without the jars leads, and makes the configurations of the tasks."""
    mixed = Mixed(Group(tmp_path, bootstrap_servers), plugin_path(tmp_path, "debezium-postgres"), stack)
    none = mixed.start_without_jars()
    jars = mixed.start_with_jars()
    assert none.leads()
    mixed.fill(none, jars, topics.create())
    name = unique("rows")
    rows.write()
    made = none.request("PUT", f"/connectors/{name}/config", rows.config)
    assert made.status == 201, made
    wait_for_places(none, name, ("RUNNING", none), ("FAILED", jars))

    said = trace(none, name)
    assert JAVA_TASK in said
    assert PYTHON_TASK in said
    assert "restart the workers that lack them" in said
    assert (rows.found(), rows.slots()) == ([], [])

    mixed.stop(none)
    wait_for_places(jars, name, ("RUNNING", jars), ("RUNNING", jars))
    rows.write()
    rows.wait_until_sent()
    rows.assert_exactly_once()


def test_lines_of_a_file_are_sent_once_with_and_without_its_jar(
    topics: Topics, tmp_path: Path, bootstrap_servers: str, stack: ExitStack
):
    """The built-in task for files takes over Java's, with its configuration and offsets, and the other way round."""
    mixed = Mixed(Group(tmp_path, bootstrap_servers), plugin_path(tmp_path, "file"), stack)
    jars, none = mixed.start_with_jars(), mixed.start_without_jars()
    files = {unique("lines"): (tmp_path / str(number), topics.create()) for number in range(4)}
    written = 0

    def go_on() -> None:
        """Write lines, and wait until each is in Kafka."""
        nonlocal written
        for file, _ in files.values():
            with file.open("ab") as out:
                out.write(b"".join(b"line %d\n" % number for number in range(written, written + 50)))
        written += 50
        for _, topic in files.values():
            wait_for(lambda topic=topic: len(read_topic(bootstrap_servers, topic)) >= written, what=f"{written} lines")

    for name, (file, topic) in files.items():
        config = {"connector.class": FILE_STREAM, "file": str(file), "topic": topic, "tasks.max": "1"}
        assert none.request("PUT", f"/connectors/{name}/config", config).status == 201
    go_on()
    # Each task now runs where it began, and each worker has some.
    assert {places(jars, name)[1][1] for name in files} == {jars.id, none.id}
    mixed.stop(none)
    go_on()
    none = mixed.start_without_jars()
    go_on()
    jars.process.kill()
    go_on()
    jars = mixed.start_with_jars()
    go_on()
    for _, topic in files.values():
        found = values(read_topic(bootstrap_servers, topic))
        assert_exactly_once(found, [b"line %d" % number for number in range(written)])


def test_the_other_tasks_of_a_connector_run_while_some_lack_its_jars(
    topics: Topics, tmp_path: Path, bootstrap_servers: str, stack: ExitStack
):
    """The connector has no built-in counterpart."""
    mixed = Mixed(Group(tmp_path, bootstrap_servers), plugin_path(tmp_path, "hostile"), stack)
    jars, none = mixed.start_with_jars(), mixed.start_without_jars()
    mixed.fill(jars, none, topics.create())
    name, topic, limit = unique("counters"), topics.create(), 50
    config = {"connector.class": HOSTILE, "topic": topic, "behaviour": "", "counters": "a,b,c,d", "limit": str(limit)}
    config |= {"tasks.max": "4", "exactly.once.support": "required"}
    assert jars.request("PUT", f"/connectors/{name}/config", config).status == 201

    def found() -> list[bytes | None]:
        return [record.key for record in read_topic(bootstrap_servers, topic)]

    def numbers(counters: str) -> list[bytes]:
        return [f"{counter}{number}".encode() for counter in counters for number in range(1, limit + 1)]

    def settled() -> bool:
        tasks = places(jars, name)[1:]
        return len(tasks) == 4 and {*tasks} == {("RUNNING", jars.id), ("FAILED", none.id)}

    wait_for(settled, what="some tasks run, and the others have failed")
    tasks = jars.get(f"/connectors/{name}/status")["tasks"]
    ran = "".join("abcd"[task["id"]] for task in tasks if task["state"] == "RUNNING")
    for task in tasks:
        if task["state"] == "FAILED":
            assert "put a folder with the jars of the connector into a directory of plugin.path" in task["trace"]
            assert HOSTILE in task["trace"]
    wait_for(lambda: len(found()) >= len(numbers(ran)), what="the tasks that run have sent all")
    assert_exactly_once(found(), numbers(ran))

    mixed.stop(none)
    wait_for_places(jars, name, *[("RUNNING", jars)] * 5)
    wait_for(lambda: len(found()) >= len(numbers("abcd")), what="all tasks have sent all")
    assert_exactly_once(found(), numbers("abcd"))
