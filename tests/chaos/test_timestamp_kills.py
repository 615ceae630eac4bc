"""A worker is killed at steps of its transactions: each row version is in Kafka once, in both timestamp modes."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

from fencepost.failpoint import FailPoint
from tests.support.checker import read_topic, values
from tests.support.killed_worker import JSON_VALUES, KilledWorker, at
from tests.support.postgres import Database

ROWS = 150
CHANGED = 30
SAME_TIME = 7
BATCH = 40
MODES = {
    "times": {"mode": "timestamp"},
    "times_and_ids": {"mode": "timestamp+incrementing", "incrementing.column.name": "id"},
}
# The worker is killed at one of these hits of the point, counted over both connectors' tasks.
POINTS = {FailPoint.MID_SEND: (3, 4), FailPoint.BEFORE_END_TXN: (1, 2), FailPoint.AFTER_END_TXN_SENT: (3, 4)}


def _write(database: Database, run: int) -> list[tuple[int, int]]:
    """Insert rows, some with equal timestamps, then change some older rows; return the ids and versions."""
    written = [(run * ROWS + number, 0) for number in range(ROWS)]
    older = range(max(0, run * ROWS - CHANGED), run * ROWS)
    start = f"(select coalesce(max(at), now() - interval '1 day') from {{}}) + (n / {SAME_TIME} + 1) * interval '1 microsecond'"  # noqa: S608 - as below
    for table in MODES:
        database.execute(
            f"create table if not exists {table}(id int primary key, version int, at timestamptz not null)"
        )
        database.execute(
            f"insert into {table} select n + {run * ROWS}, 0, {start.format(table)} from generate_series(0, {ROWS - 1}) n"  # noqa: S608 - names of MODES
        )
        if older:
            database.execute(
                f"update {table} set version = {run}, at = (select max(at) from {table}) + (id / {SAME_TIME}) * interval "  # noqa: S608 - as above
                f"'1 microsecond' where id between {older[0]} and {older[-1]}"
            )
    return written + [(number, run) for number in older]


def test_each_version_of_a_row_is_there_once_wherever_a_worker_is_killed(
    bootstrap_servers: str, database: Database, tmp_path: Path, chance: random.Random
) -> None:
    settings = {"listeners": "http://127.0.0.1:0", "spark.master": "local[2]"}
    worker = KilledWorker(tmp_path, bootstrap_servers, JSON_VALUES | settings)
    prefix = worker.group
    for table, mode in MODES.items():
        connector = {
            "connector.class": "JdbcSource", "connection.url": database.jdbc_url,
            "connection.user": "postgres", "topic.prefix": f"{prefix}-", "table.whitelist": table, "single.writer": "true",
            "batch.max.rows": str(BATCH), "poll.interval.ms": "60000", "exactly.once.support": "required",
            "timestamp.column.name": "at", **mode,
        }  # fmt: skip
        worker.configure(f"{prefix}-{table}", connector)

    written: list[tuple[int, int]] = []
    for run, point in enumerate([*POINTS, None]):
        written += _write(database, run)
        count = 1 if point is None else chance.choice(POINTS[point])
        worker.run_until(point, at(point, count), forked=False)

    for table in MODES:
        rows = [json.loads(value) for value in values(read_topic(bootstrap_servers, f"{prefix}-{table}"))]
        found = Counter((row["id"], row["version"]) for row in rows)
        assert {version: count for version, count in found.items() if count > 1} == {}, table
        # Of a row that changed before it was read, only the newest version is there.
        newest = {number: max(version for other, version in written if other == number) for number, _ in written}
        assert set(newest.items()) <= set(found) <= set(written), table
