"""A worker is killed at steps of its transactions: each row of SQLite is in Kafka once, also with fractional ids."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fencepost.embedded.jars import JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.failpoint import FailPoint
from tests.support.checker import read_topic, values
from tests.support.killed_worker import JSON_VALUES, KilledWorker, at

SQLITE = JarSet("sqlite-jdbc-3.46.1.3", "SQLite's JDBC driver", (("org.xerial", "sqlite-jdbc", "3.46.1.3"),))
ROWS = 150
BATCH = 40
KINDS = {"fractions": "numeric(20,3)", "whole": "integer"}
# The worker is killed at one of these hits of the point, counted over both connectors' tasks.
POINTS = {FailPoint.MID_SEND: (3, 4), FailPoint.BEFORE_END_TXN: (1, 2), FailPoint.AFTER_END_TXN_SENT: (3, 4)}


@pytest.fixture(scope="module")
def driver() -> Path:
    return next(jar for jar in class_path(find_java(), SQLITE) if jar.name.startswith("sqlite-jdbc"))


def _insert(database: Path, first: int) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for table, kind in KINDS.items():
            connection.execute(f"create table if not exists {table}(id {kind}, note text)")
            steps = 8 if table == "fractions" else 1
            connection.executemany(
                f"insert into {table} values (?, ?)",  # noqa: S608 - one of KINDS
                [(number / steps, f"n{number}") for number in range(first, first + ROWS)],
            )


def test_each_row_of_sqlite_is_there_once_wherever_a_worker_is_killed(
    bootstrap_servers: str, driver: Path, tmp_path: Path, chance: random.Random
) -> None:
    database = tmp_path / "shop.db"
    settings = {"listeners": "http://127.0.0.1:0", "spark.master": "local[2]", "spark.jars": str(driver)}
    worker = KilledWorker(tmp_path, bootstrap_servers, JSON_VALUES | settings)
    prefix = worker.group
    for table in KINDS:
        connector = {
            "connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{database}",
            "topic.prefix": f"{prefix}-", "table.whitelist": table, "single.writer": "true", "batch.max.rows": str(BATCH),
            "poll.interval.ms": "60000", "exactly.once.support": "required", "mode": "incrementing", "incrementing.column.name": "id",
        }  # fmt: skip
        worker.configure(f"{prefix}-{table}", connector)

    for run, point in enumerate([*POINTS, None]):
        _insert(database, run * ROWS)
        count = 1 if point is None else chance.choice(POINTS[point])
        worker.run_until(point, at(point, count), forked=False)

    for table in KINDS:
        notes = [json.loads(value)["note"] for value in values(read_topic(bootstrap_servers, f"{prefix}-{table}"))]
        assert notes == [f"n{number}" for number in range(ROWS * (len(POINTS) + 1))], table
