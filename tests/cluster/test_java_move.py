"""Connectors are moved one by one over REST from a Kafka Connect cluster to a fencepost cluster, and back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.java_connectors import with_java
from tests.support.java_plugins import FILE_STREAM, plugin_path
from tests.support.java_worker import java_worker
from tests.support.postgres import Database
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group, Worker


def move(name: str, config: dict[str, str], old: Worker, new: Worker) -> None:
    """Follow docs/java-connectors.md.

    The configuration comes from its owner, because the old cluster's answers hide passwords.
    """
    assert old.request("PUT", f"/connectors/{name}/stop").status == 204
    old.wait_for_states(name, "STOPPED")
    offsets = old.get(f"/connectors/{name}/offsets")
    assert offsets["offsets"]
    if new.get(f"/connectors/{name}") is None:
        body: Any = {"name": name, "config": config, "initial_state": "STOPPED"}
        assert new.request("POST", "/connectors", body).status == 201
        new.wait_for_states(name, "STOPPED")
    assert new.request("PATCH", f"/connectors/{name}/offsets", offsets).status == 200
    assert new.get(f"/connectors/{name}/offsets") == offsets
    assert new.request("PUT", f"/connectors/{name}/resume").status == 202


def last_offsets(group: Group, bootstrap_servers: str) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in read_topic(bootstrap_servers, f"{group.id}-offsets")}


def checked(worker: Worker, config: dict[str, str], names: set[str]) -> dict[str, Any]:
    """What the validation of a configuration says about some properties: all but the values, where passwords are."""
    java_class = config["connector.class"]
    answer = worker.request("PUT", f"/connector-plugins/{java_class}/config/validate", {"name": "checked", **config})
    assert answer.status == 200, answer
    found = {one["definition"]["name"]: one for one in answer.body["configs"] if one["definition"]["name"] in names}
    for one in found.values():
        # Neither order means anything.
        one["value"] = {
            key: sorted(each) if key != "visible" else each
            for key, each in one["value"].items()
            if key not in ("name", "value")
        }
    return found


def assert_checks_are_the_same(connect: Worker, fencepost: Worker, config: dict[str, str]) -> None:
    """Each property that the connector defines has the same definition, recommendations and errors in both clusters."""
    java_class = config["connector.class"]
    theirs, ours = (
        [key["name"] for key in worker.get(f"/connector-plugins/{java_class}/config")]
        for worker in (connect, fencepost)
    )
    assert set(theirs) <= set(ours)
    # The properties that all connectors have come after the connector's own.
    own = set(theirs[: theirs.index("name")])
    assert set(ours[: ours.index("name")]) == own
    for given in (config, {"connector.class": java_class}):
        expected = checked(connect, given, own)
        assert expected.keys() == own
        assert checked(fencepost, given, own) == expected


def test_connectors_move_one_by_one_between_clusters_and_back(
    debezium: dict[str, str], database: Database, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    plugins = str(plugin_path(tmp_path, "file", "debezium-postgres"))
    groups = []
    for name in ("connect", "fencepost"):
        (tmp_path / name).mkdir()
        groups.append(Group(tmp_path / name, bootstrap_servers, plugin_path=plugins))
    file, lines = tmp_path / "in.txt", topics.create()
    rows = topics.create(f"{debezium['topic.prefix']}.public.items")
    configs = {"lines": {"connector.class": FILE_STREAM, "file": str(file), "topic": lines}, "rows": debezium}
    written = 0

    with closing(database.connect()) as connection, file.open("ab") as out:
        connection.execute("create table items (id bigint primary key)")

        def go_on() -> None:
            """Write lines and rows, and wait until each is in Kafka."""
            nonlocal written
            for number in range(written, written + 50):
                connection.execute("insert into items values (%s)", [number])
                out.write(b"line %d\n" % number)
            out.flush()
            written += 50
            wait_for(lambda: len(read_topic(bootstrap_servers, lines)) >= written, what=f"{written} lines")
            wait_for(lambda: len(read_topic(bootstrap_servers, rows)) >= written, what=f"{written} rows")

        with java_worker(groups[0]) as connect, with_java(groups[1]) as fencepost:
            for worker in (connect, fencepost):
                worker.wait_until_healthy()
            for name, config in configs.items():
                assert_checks_are_the_same(connect, fencepost, config)
                assert connect.request("PUT", f"/connectors/{name}/config", config).status == 201
            go_on()
            for name, config in configs.items():
                move(name, config, connect, fencepost)
                # The other connector still runs in its old cluster.
                go_on()
            for name, config in configs.items():
                move(name, config, fencepost, connect)
            go_on()
            for name, config in configs.items():
                move(name, config, connect, fencepost)
            kept = [last_offsets(group, bootstrap_servers) for group in groups]
            go_on()

    # The offsets stored by both clusters at the moves are equal, byte for byte.
    assert len(kept[0]) == 2
    assert kept[0] == kept[1]
    assert_exactly_once(
        values(read_topic(bootstrap_servers, lines)), [b"line %d" % number for number in range(written)]
    )
    keys = [record.key for record in read_topic(bootstrap_servers, rows)]
    assert_exactly_once(keys, [b'{"id":%d}' % number for number in range(written)])
