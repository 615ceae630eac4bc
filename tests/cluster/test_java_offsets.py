"""Offsets of Java connectors are stored byte for byte as Kafka Connect's own worker stores them, odd ones too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checker import read_topic
from tests.support.java_connectors import with_java
from tests.support.java_plugins import HOSTILE, plugin_path
from tests.support.java_worker import java_worker
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.workers import Group

STRINGS = {f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter" for part in ("key", "value")}
LAST = b'["odd",{"last":true}]'


@pytest.fixture
def plugins(tmp_path: Path) -> str:
    return str(plugin_path(tmp_path, "hostile"))


def test_odd_offsets_have_the_bytes_that_kafka_connect_stores(
    plugins: str, topics: Topics, tmp_path: Path, bootstrap_servers: str
):
    found = []
    for start in (java_worker, with_java):
        folder = tmp_path / start.__name__
        folder.mkdir()
        group = Group(folder, bootstrap_servers, plugin_path=plugins)
        config = {"connector.class": HOSTILE, "topic": topics.create(), "behaviour": "odd", **STRINGS}

        def offsets(group: Group = group) -> dict[bytes | None, bytes | None]:
            records = read_topic(bootstrap_servers, f"{group.id}-offsets")
            return {record.key: record.value for record in records}

        with start(group) as worker:
            worker.wait_until_healthy()
            assert worker.request("PUT", "/connectors/odd/config", config).status == 201
            wait_for(lambda: LAST in offsets(), what="the last offset")
            found.append(offsets())
    assert len(found[0]) > 8
    assert found[1] == found[0]
    # Null is a source partition, bytes are base64, and half a surrogate pair is an escape.
    assert found[1][b'["odd",null]'] == b'{"n":1}'
    assert b'{"bytes":"AAH/"}' in found[1].values()
    assert b'{"lone":"x\\uD800","pair":"\\uD83D\\uDE00"}' in found[1].values()
