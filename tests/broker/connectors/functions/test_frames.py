"""Records of frames that a function yields, read by another client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fencepost import source
from fencepost.runtime.state import State
from tests.broker.engine.test_dead_letters import told
from tests.support.checker import Record, read_topic
from tests.support.task_runner import TaskRunner
from tests.support.topics import Topics, unique

START = 1_700_000_000_000


@source(key="id")
def orders(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Rows, and frames of three libraries, in turn; two rows of the last frame are refused."""
    del config
    at = pa.array([START + 3, START + 4, -5, START + 6], pa.int64())
    items: list[Any] = [
        {"id": 0, "at": START},
        pd.DataFrame({"id": [1], "at": [START + 1]}),
        pl.DataFrame({"id": [2], "at": [START + 2]}),
        pa.table({"id": [3, 4, 5, 6], "at": at, "t": pa.array([0, 1_001, 0, 2_000], pa.timestamp("ns"))}),
    ]
    for number in range(cursor or 0, len(items)):
        yield items[number], number + 1


@source
def names(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Two frames of ten thousand and one rows each."""
    del config
    for start in range(cursor or 0, 20_002, 10_001):
        ids = range(start, start + 10_001)
        yield pa.table({"id": ids, "name": [f"row {number}" for number in ids]}), start + 10_001


def config_of(function: Any, topic: str, **more: str) -> dict[str, str]:
    return {
        "name": unique("connector"),
        "connector.class": f"{__name__}.{function.__name__}",
        "topic": topic,
        "poll.interval.ms": "20",
    } | {name.replace("_", "."): text for name, text in more.items()}


def value(record: Record) -> Any:
    return json.loads(record.value or b"")


def test_frames_and_rows_are_records_in_their_order_and_bad_rows_dead_letters(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics
):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    config = config_of(orders, topic, timestamp_column="at")
    task = runner.run_to_end(config)
    assert task.state is State.FAILED
    assert "The row 1 of the frame that the source function orders, defined at" in str(task.error)
    # No row of the frame with the refused rows was written.
    assert [value(record)["id"] for record in read_topic(bootstrap_servers, topic)] == [0, 1, 2]

    tolerant = config | {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead}
    task = runner.run_to_end(tolerant)
    assert task.state is State.STOPPED, task.error
    found = read_topic(bootstrap_servers, topic)
    assert [value(record)["id"] for record in found] == [0, 1, 2, 3, 6]
    assert [(record.key, record.timestamp) for record in found] == [
        (str(number).encode(), START + number) for number in (0, 1, 2, 3, 6)
    ]
    letters = read_topic(bootstrap_servers, dead)
    assert [value(letter)["id"] for letter in letters] == [4, 5]
    assert "would lose data: 1001" in told(letters[0])["exception.message"]
    assert "cannot have a timestamp before 1970" in told(letters[1])["exception.message"]


@pytest.mark.parametrize("transformed", [False, True])
def test_frames_are_written_whole_with_and_without_transforms(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, *, transformed: bool
):
    topic = topics.create(partitions=1)
    insert = {
        "transforms": "insert",
        "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.insert.static.field": "source",
        "transforms.insert.static.value": "test",
    }
    task = runner.run_to_end(config_of(names, topic) | (insert if transformed else {}))
    assert task.state is State.STOPPED, task.error
    added = {"source": "test"} if transformed else {}
    expected = [{"id": number, "name": f"row {number}"} | added for number in range(20_002)]
    assert [value(record) for record in read_topic(bootstrap_servers, topic)] == expected
