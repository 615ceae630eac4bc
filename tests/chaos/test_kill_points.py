"""A worker that is killed at each step of a transaction, again and again, loses nothing and doubles nothing.

`make chaos` kills 20 times at each step.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fencepost.failpoint import FailPoint, of_task
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.killed_worker import STRINGS, KilledWorker
from tests.support.topics import Topics

KILLS = int(os.environ.get("FENCEPOST_TEST_KILLS", "4"))
LINES = 16_000


@pytest.mark.parametrize("point", FailPoint)
def test_a_worker_killed_at_a_step_of_its_transactions_delivers_exactly_once(
    point: FailPoint, bootstrap_servers: str, topics: Topics, tmp_path: Path, chance: random.Random
):
    topic, file = topics.create(partitions=chance.choice([1, 3])), tmp_path / "in.txt"
    file.write_text("".join(f"line {number}\n" for number in range(LINES)))
    worker = KilledWorker(tmp_path, bootstrap_servers, STRINGS)

    def configure(batch_size: int) -> None:
        worker.configure(
            "lines",
            {
                "connector.class": "FileStreamSource",
                "file": file,
                "topic": topic,
                "batch.size": batch_size,
                "transaction.boundary": chance.choice(["poll", "interval"]),
                "transaction.boundary.interval.ms": 5,
            },
        )

    for run in range(KILLS):
        configure(chance.randint(20, 150))
        output = worker.run_until(point, of_task(point, chance.randint(1, 5)))
        assert "Task lines-0 is RUNNING" in output, f"run {run} was killed before its task came to {point}"
    # The last run reads most of the lines.
    configure(2_000)
    worker.run_until(None, {})

    records = read_topic(bootstrap_servers, topic)
    assert_exactly_once(values(records), [f"line {number}".encode() for number in range(LINES)])
    for partition in {record.partition for record in records}:
        numbers = [int((record.value or b"")[5:]) for record in records if record.partition == partition]
        assert numbers == sorted(numbers), f"partition {partition} is out of order"
    offsets = read_offsets(bootstrap_servers, worker.offsets_topic, "lines")
    assert offsets == [({"filename": str(file)}, {"position": file.stat().st_size})]
