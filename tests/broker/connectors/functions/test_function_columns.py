"""Records of a function's rows whose key, topic, timestamp and headers come from columns, read by another client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fencepost import source
from fencepost.runtime.state import State
from tests.broker.engine.test_dead_letters import told
from tests.support.checker import Record, read_topic
from tests.support.task_runner import TaskRunner
from tests.support.topics import Topics, unique

ROWS = 60
BAD = (7, 8, 30, 59)
REGIONS = ("eu", "us", "größe")


def row(number: int) -> dict[str, Any]:
    region = REGIONS[number % 2]
    return {"id": number, "region": REGIONS[2] if number in BAD else region, "at": 1_700_000_000_000 + number}


@source(key="id")
def orders(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Orders of two regions. The region of some orders is not valid in a topic name."""
    del config
    for number in range(0 if cursor is None else cursor + 1, ROWS):
        yield row(number), number


def run(runner: TaskRunner, config: Mapping[str, str]) -> tuple[State, str]:
    task = runner.run_to_end(config)
    return task.state, str(task.error)


def _parts(record: Record) -> tuple[bytes | None, Any, dict[str, str], int]:
    headers = {name: (value or b"").decode() for name, value in record.headers}
    return record.key, json.loads(record.value or b""), headers, record.timestamp


def test_rows_go_where_their_columns_say_and_bad_ones_are_dead_letters_once(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics
):
    name, dead, base = unique("connector"), topics.create(partitions=1), unique("orders")
    for region in REGIONS[:2]:
        topics.create(f"{base}-{region}", partitions=1)
    config = {
        "name": name, "connector.class": f"{__name__}.orders", "topic": f"{base}-${{region}}", "batch.rows": "5",
        "timestamp.column": "at", "headers.columns": "region,id", "poll.interval.ms": "20",
    }  # fmt: skip

    state, error = run(runner, config)
    assert state is State.FAILED
    assert f"column region makes '{base}-größe', which is not a name of a topic" in error
    # The batch with the refused row was not written.
    assert sum(len(read_topic(bootstrap_servers, f"{base}-{region}")) for region in REGIONS[:2]) == 5

    state, error = run(runner, config | {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead})
    assert state is State.STOPPED, error
    for parity, region in enumerate(REGIONS[:2]):
        found = read_topic(bootstrap_servers, f"{base}-{region}")
        assert [_parts(record) for record in found] == [
            (str(number).encode(), row(number), {"region": region, "id": str(number)}, row(number)["at"])
            for number in range(parity, ROWS, 2)
            if number not in BAD
        ]
    letters = read_topic(bootstrap_servers, dead)
    assert [json.loads(letter.value or b"") for letter in letters] == [row(number) for number in BAD]
    first = told(letters[0])
    assert (first["stage"], json.loads(first["source.offset"])) == ("TASK_POLL", {"cursor": BAD[0]})
    assert "which is not a name of a topic" in first["exception.message"]
