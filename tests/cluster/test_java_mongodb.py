"""MongoDB's own source connector, unchanged, against a server in memory: every document once past kills."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.failpoint import FailPoint, of_task
from tests.support.checker import assert_exactly_once, read_offsets, read_topic
from tests.support.java_plugins import MONGODB
from tests.support.java_runs import JavaRuns, kill_jvms
from tests.support.mongodb import MongoServer
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique

STRINGS = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MongoServer]:
    with MongoServer(tmp_path) as server:
        yield server


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.create(f"{unique('mongo')}.shop.rows")


def ids(bootstrap_servers: str, topic: str) -> list[int]:
    return [json.loads(record.value or b"")["_id"] for record in read_topic(bootstrap_servers, topic)]


def test_each_document_arrives_once_past_kills_of_the_worker_and_the_jvm(
    server: MongoServer, topic: str, tmp_path: Path, bootstrap_servers: str
):
    config = {
        "name": "documents",
        "connector.class": MONGODB,
        "connection.uri": server.address,
        "database": "shop",
        "collection": "rows",
        "topic.prefix": topic.partition(".")[0],
        "publish.full.document.only": "true",
        "startup.mode": "copy_existing",
        "poll.await.time.ms": "50",
        "poll.max.batch.size": "20",
        "value.converter": STRINGS,
        # It was made before connectors could say whether they deliver exactly once.
        "exactly.once.support": "requested",
    }
    runs = JavaRuns(tmp_path, bootstrap_servers, ["mongodb"], config)
    server.insert(range(50))
    with runs.running() as worker:
        wait_for(lambda: len(ids(bootstrap_servers, topic)) == 50, what="the documents that were there")
        server.insert(range(50, 100))
        wait_for(lambda: len(ids(bootstrap_servers, topic)) == 100, what="new documents")
        kill_jvms(worker.pid)
        server.insert(range(100, 200))
        wait_for(lambda: len(ids(bootstrap_servers, topic)) >= 200, what="documents after a kill of the JVM")
    server.insert(range(200, 300))
    with runs.running(of_task(FailPoint.MID_SEND, 3)) as worker:
        assert worker.wait() == -signal.SIGKILL, worker.output
    with runs.running():
        wait_for(lambda: len(ids(bootstrap_servers, topic)) >= 300, what="all documents")
    assert_exactly_once(ids(bootstrap_servers, topic), list(range(300)))
    ((partition, offset),) = read_offsets(bootstrap_servers, runs.offsets_topic, "documents")
    assert partition == {"ns": f"{server.address}/shop.rows"}
    assert offset is not None
    assert "_id" in offset
