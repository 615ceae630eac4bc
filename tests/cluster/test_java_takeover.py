"""A connector moves from a Java worker to fencepost and back: the same jars, configuration and offsets topic."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.java_connectors import with_java
from tests.support.java_plugins import FILE_STREAM, plugin_path
from tests.support.java_runs import jvms
from tests.support.java_worker import java_worker
from tests.support.postgres import Database
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker


@pytest.fixture
def group(tmp_path: Path, bootstrap_servers: str) -> Group:
    return Group(tmp_path, bootstrap_servers, plugin_path=str(plugin_path(tmp_path, "file", "debezium-postgres")))


def test_connectors_move_from_a_java_worker_to_fencepost_and_back(
    group: Group, debezium: dict[str, str], database: Database, topics: Topics, bootstrap_servers: str
):
    file, lines = group.folder / "in.txt", topics.create()
    idle = Idle(group.folder / "idle.txt", bootstrap_servers)
    rows = topics.create(f"{debezium['topic.prefix']}.public.items")
    files = {"connector.class": FILE_STREAM, "file": str(file), "topic": lines, **pipeline(lines)}
    shapes = []

    with closing(database.connect()) as connection, file.open("ab") as out:
        connection.execute("create table items (id bigint primary key)")

        def go_on(upto: int) -> None:
            """Write lines and rows up to a number, and wait until each is in Kafka once."""
            for number in range(upto - 50, upto):
                connection.execute("insert into items values (%s)", [number])
                out.write(b"line %d\n" % number)
            out.flush()
            wait_for(lambda: len(read_topic(bootstrap_servers, lines)) >= upto, what=f"{upto} lines")
            wait_for(lambda: len(read_topic(bootstrap_servers, rows)) >= upto, what=f"{upto} rows")

        for turn, start in enumerate((java_worker, with_java, java_worker, with_java)):
            with start(group) as worker:
                worker.wait_until_healthy()
                if turn == 0:
                    for name, config in (("lines", files), ("rows", debezium)):
                        made = worker.request("PUT", f"/connectors/{name}/config", config)
                        assert made.status == 201, made
                    idle.create(worker, {"PAUSED": topics.create(), "STOPPED": topics.create()})
                idle.wait_until_taken_over(worker)
                go_on(50 * (turn + 1))
                if start is with_java:
                    assert_jars_run(worker)
                if turn == 3:
                    idle.assert_they_go_on(worker)
                os.kill(worker.process.pid, 15)
                worker.process.wait()
            shapes.append(offset_shape(group, bootstrap_servers))

    written = read_topic(bootstrap_servers, lines)
    assert_exactly_once(values(written), [b"Struct{line=line %d}" % number for number in range(200)])
    assert {tuple(record.headers) for record in written} == {(("by", b"a transform"),)}
    keys = [record.key for record in read_topic(bootstrap_servers, rows)]
    assert_exactly_once(keys, [b'{"id":%d}' % number for number in range(200)])
    # Both workers write the same keys, and values that differ in numbers only.
    assert shapes[1] == shapes[2] == shapes[3]


class Idle:
    """A PAUSED and a STOPPED connector, named by their states, which have read a file, and what they must not read."""

    def __init__(self, file: Path, bootstrap_servers: str) -> None:
        self._file = file
        self._servers = bootstrap_servers
        self._topics: dict[str, str] = {}

    def create(self, worker: Worker, topics: dict[str, str]) -> None:
        """Let the connectors of these topics read a line, and bring them to rest."""
        self._topics = topics
        self._file.write_text("one\n")
        for state, topic in topics.items():
            config = {"connector.class": FILE_STREAM, "file": str(self._file), "topic": topic}
            assert worker.request("PUT", f"/connectors/{state}/config", config).status == 201
        for state, topic in topics.items():
            wait_for(lambda: self._lines(topic) == [b"one"], what=f"the line of {state}")  # noqa: B023 - it is called at once
            worker.request("PUT", f"/connectors/{state}/{'pause' if state == 'PAUSED' else 'stop'}")

    def wait_until_taken_over(self, worker: Worker) -> None:
        """Wait until this worker has reported the states, and write a line that nobody may read."""
        at_rest = {"PAUSED": [("PAUSED", worker.id)] * 2, "STOPPED": [("STOPPED", worker.id)]}
        wait_for(
            lambda: {state: self._reported(worker, state) for state in at_rest} == at_rest, what="both are at rest"
        )
        with self._file.open("a") as file:
            file.write("more\n")

    def assert_they_go_on(self, worker: Worker) -> None:
        """Assert that they read nothing at rest, and that each reads all the rest once it is resumed."""
        assert [self._lines(topic) for topic in self._topics.values()] == [[b"one"]] * 2
        for state, topic in self._topics.items():
            assert worker.request("PUT", f"/connectors/{state}/resume").status == 202
            wait_for(lambda: len(self._lines(topic)) >= 5, what=f"the other lines of {state}")  # noqa: B023 - likewise
            assert self._lines(topic) == [b"one", *[b"more"] * 4]

    def _lines(self, topic: str) -> list[bytes | None]:
        return values(read_topic(self._servers, topic))

    @staticmethod
    def _reported(worker: Worker, name: str) -> list[tuple[str, str]]:
        status = worker.get(f"/connectors/{name}/status")
        parts = [] if status is None else [status["connector"], *status["tasks"]]
        return [(part["state"], part["worker_id"]) for part in parts]


def pipeline(topic: str) -> dict[str, str]:
    """Transforms of records of one topic, and one of records of other topics, which there are none of."""
    connect = "org.apache.kafka.connect.transforms"
    return {
        "transforms": "hoist,mark,drop",
        "transforms.hoist.type": f"{connect}.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.hoist.predicate": "here",
        "transforms.mark.type": f"{connect}.InsertHeader",
        "transforms.mark.header": "by",
        "transforms.mark.value.literal": "a transform",
        "transforms.drop.type": f"{connect}.Filter",
        "transforms.drop.predicate": "here",
        "transforms.drop.negate": "true",
        "predicates": "here",
        "predicates.here.type": f"{connect}.predicates.TopicNameMatches",
        "predicates.here.pattern": topic,
    }


def assert_jars_run(worker: Worker) -> None:
    """Each connector runs in a JVM of its own, not the one in Python that has the same name."""
    versions = {name: worker.get(f"/connectors/{name}/status")["connector"]["version"] for name in ("lines", "rows")}
    assert versions == {"lines": "4.1.1", "rows": "3.7.0.Final"}
    assert len(jvms(worker.process.pid)) >= 2


def offset_shape(group: Group, bootstrap_servers: str) -> dict[bytes | None, bytes]:
    """The latest offset of each source partition, with its digits removed."""
    records = read_topic(bootstrap_servers, f"{group.id}-offsets")
    return {record.key: (record.value or b"").translate(None, b"0123456789") for record in records}
