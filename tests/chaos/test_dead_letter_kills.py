"""A worker is killed at each step of its transactions: accepted rows and dead letters make up the file, once."""

from __future__ import annotations

import random
from pathlib import Path

from fencepost.failpoint import FailPoint, of_task
from tests.support.checker import read_topic, values
from tests.support.killed_worker import JSON_VALUES, KilledWorker
from tests.support.topics import Topics

LINES = 4_000


def test_good_rows_and_dead_letters_are_all_rows_wherever_a_worker_is_killed(
    bootstrap_servers: str, topics: Topics, tmp_path: Path, chance: random.Random
):
    topic, dead = topics.create(partitions=2), topics.create()
    lines = [f"bad {n}" if chance.random() < 0.1 else str(n) for n in range(LINES)]
    file = tmp_path / "rows.csv"
    file.write_text("".join(f"{line}\n" for line in lines))
    worker = KilledWorker(tmp_path, bootstrap_servers, JSON_VALUES)

    for point in [*chance.sample(list(FailPoint), len(FailPoint)), None]:
        worker.configure(
            "rows",
            {
                "connector.class": "FileSource",
                "files": file,
                "format": "csv",
                "schema": "n BIGINT",
                "topic": topic,
                "batch.bytes": chance.randint(150, 900),
                "transaction.boundary": chance.choice(["poll", "interval"]),
                "transaction.boundary.interval.ms": 5,
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": dead,
            },
        )
        worker.run_until(point, {} if point is None else of_task(point, chance.randint(1, 5)))

    good = [value.decode() for value in values(read_topic(bootstrap_servers, topic))]
    bad = [value.decode() for value in values(read_topic(bootstrap_servers, dead))]
    assert sorted([*(value.removeprefix('{"n":').removesuffix("}") for value in good), *bad]) == sorted(lines)
