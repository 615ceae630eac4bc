"""A worker is killed at steps of its transactions: each row of Parquet, ORC and Avro files is in Kafka once."""

from __future__ import annotations

import random
from pathlib import Path

from fencepost.failpoint import FailPoint
from tests.support.checker import read_topic, values
from tests.support.killed_worker import JSON_VALUES, KilledWorker, at
from tests.support.table_files import WRITE
from tests.support.topics import Topics

# Each run of the test takes some of these steps at random.
POINTS = 3
ROWS = 3_000


def test_each_row_is_there_once_wherever_a_worker_is_killed(
    bootstrap_servers: str, topics: Topics, tmp_path: Path, chance: random.Random
) -> None:
    keys = {"key.converter": "org.apache.kafka.connect.converters.LongConverter"}
    worker = KilledWorker(tmp_path, bootstrap_servers, JSON_VALUES | keys)
    by_form = {form: topics.create(partitions=2) for form in WRITE}
    for form in by_form:
        rows = [{"n": number, "t": f"{form} {number}"} for number in range(ROWS)]
        (tmp_path / f"rows.{form}").write_bytes(WRITE[form](rows))

    for point in [*chance.sample(list(FailPoint), POINTS), None]:
        for form, topic in by_form.items():
            worker.configure(
                form,
                {
                    "connector.class": "FileSource",
                    "files": tmp_path / f"rows.{form}",
                    "format": form,
                    "topic": topic,
                    "key.columns": "n",
                    "batch.bytes": chance.randint(1_000, 6_000),
                    "transaction.boundary": chance.choice(["poll", "interval"]),
                    "transaction.boundary.interval.ms": 5,
                },
            )
        worker.run_until(point, at(point, chance.randint(1, 5)))

    for form, topic in by_form.items():
        found = sorted(value.decode() for value in values(read_topic(bootstrap_servers, topic)))
        assert found == sorted(f'{{"n":{number},"t":"{form} {number}"}}' for number in range(ROWS)), form
