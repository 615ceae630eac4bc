"""transaction.boundary=source: database transactions stay whole, also one whose rows share one log position."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fencepost.failpoint import FailPoint, of_task
from tests.support.checker import assert_exactly_once, read_offsets, read_topic
from tests.support.java_runs import JavaRuns, kill_jvms
from tests.support.postgres import Database
from tests.support.processes import wait_for
from tests.support.topics import Topics

COPIED = 600
"""Rows of a COPY: more than a page of the table, and many more than one poll returns."""
WITHOUT_ENDS = {
    "transforms": "drop",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.drop.predicate": "ends",
    "predicates": "ends",
    "predicates.ends.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.ends.pattern": ".*transaction",
}


@pytest.fixture
def execute(database: Database) -> Iterator[Callable[[str], object]]:
    with closing(database.connect()) as connection:
        connection.execute(b"create table items (id bigint primary key)")
        yield lambda sql: connection.execute(sql.encode())


@pytest.fixture
def topic(topics: Topics, debezium: dict[str, str]) -> str:
    topics.create(f"{debezium['topic.prefix']}.transaction")
    return topics.create(f"{debezium['topic.prefix']}.public.items")


@pytest.fixture
def runs(debezium: dict[str, str], tmp_path: Path, bootstrap_servers: str) -> JavaRuns:
    config = {
        **debezium,
        "name": "shop",
        "max.batch.size": "64",
        "max.queue.size": "128",
        "provide.transaction.metadata": "true",
        "transaction.boundary": "source",
    }
    return JavaRuns(tmp_path, bootstrap_servers, ["debezium-postgres"], config)


def ids(bootstrap_servers: str, topic: str) -> list[int]:
    events = (json.loads(record.value or b"{}") for record in read_topic(bootstrap_servers, topic))
    return [event["after"]["id"] for event in events]


def copy(first: int) -> str:
    return f"copy items from program 'seq {first} {first + COPIED - 1}'"


@pytest.mark.parametrize("drops", [False, True], ids=["kept", "dropped"])
def test_rows_of_one_position_arrive_once_and_a_transaction_whole_past_kills(
    execute: Callable[[str], object], runs: JavaRuns, topic: str, bootstrap_servers: str, drops: bool
):
    if drops:
        runs.config |= WITHOUT_ENDS
    execute("insert into items values (0)")
    with runs.running():
        # This change is streamed, so the slot exists from here on.
        wait_for(lambda: ids(bootstrap_servers, topic) == [0], what="the snapshot")
        execute("insert into items values (1)")
        wait_for(lambda: ids(bootstrap_servers, topic) == [0, 1], what="a change")
    execute(copy(1_000))
    for sends in (2, 5):
        with runs.running(of_task(FailPoint.MID_SEND, sends)) as worker:
            assert worker.wait() == -signal.SIGKILL, worker.output
        # No row of the COPY is committed, although several polls have returned some.
        assert ids(bootstrap_servers, topic) == [0, 1]
        assert len(read_topic(bootstrap_servers, topic, isolation="read_uncommitted")) > 2
    expected = [0, 1, *range(1_000, 1_000 + COPIED)]
    with runs.running() as worker:
        wait_for(lambda: len(ids(bootstrap_servers, topic)) > 2, what="the rows of COPY")
        assert len(ids(bootstrap_servers, topic)) == len(expected)
        execute(copy(2_000))
        kill_jvms(worker.pid)
        expected += range(2_000, 2_000 + COPIED)
        wait_for(lambda: len(ids(bootstrap_servers, topic)) >= len(expected), what="the rows of the other COPY")
        execute("insert into items values (3000)")
        expected.append(3_000)
        wait_for(lambda: len(ids(bootstrap_servers, topic)) >= len(expected), what="the last row")
    found = ids(bootstrap_servers, topic)
    assert_exactly_once(found, expected)
    assert found == expected
    ends = [
        json.loads(one.value or b"{}")
        for one in read_topic(bootstrap_servers, topic.replace("public.items", "transaction"))
    ]
    counts = Counter(one["event_count"] for one in ends if one["status"] == "END")
    assert counts == ({} if drops else {1: 2, COPIED: 2})
    ((partition, offset),) = read_offsets(bootstrap_servers, runs.offsets_topic, "shop")
    assert partition == {"server": topic.partition(".")[0]}
    assert offset is not None
    assert offset["messageType"] == "COMMIT"
