"""A connector moves from a Java worker to fencepost and back: the same jars, configuration and offsets topic."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.java_connectors import with_java
from tests.support.java_plugins import FILE_STREAM, plugin_path
from tests.support.java_worker import java_worker
from tests.support.postgres import Database
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group


@pytest.fixture
def group(tmp_path: Path, bootstrap_servers: str) -> Group:
    return Group(tmp_path, bootstrap_servers, plugin_path=str(plugin_path(tmp_path, "file", "debezium-postgres")))


def test_connectors_move_from_a_java_worker_to_fencepost_and_back(
    group: Group, debezium: dict[str, str], database: Database, topics: Topics, bootstrap_servers: str
):
    file, lines = group.folder / "in.txt", topics.create()
    rows = topics.create(f"{debezium['topic.prefix']}.public.items")
    files = {"connector.class": FILE_STREAM, "file": str(file), "topic": lines}
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
                go_on(50 * (turn + 1))
                os.kill(worker.process.pid, 15)
                worker.process.wait()
            shapes.append(offset_shape(group, bootstrap_servers))

    assert_exactly_once(values(read_topic(bootstrap_servers, lines)), [b"line %d" % number for number in range(200)])
    keys = [record.key for record in read_topic(bootstrap_servers, rows)]
    assert_exactly_once(keys, [b'{"id":%d}' % number for number in range(200)])
    # Both write the same keys, and values that differ in their numbers alone.
    assert shapes[1] == shapes[2] == shapes[3]


def offset_shape(group: Group, bootstrap_servers: str) -> dict[bytes | None, bytes]:
    """The latest offset of each source partition, without its digits."""
    records = read_topic(bootstrap_servers, f"{group.id}-offsets")
    return {record.key: (record.value or b"").translate(None, b"0123456789") for record in records}
