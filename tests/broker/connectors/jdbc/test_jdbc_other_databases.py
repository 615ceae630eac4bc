"""JdbcSource on a database other than PostgreSQL: SQLite, with its driver on Spark's class path.

Each worker is its own process, because the driver has to be on the class path when the JVM starts.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fencepost.embedded.jars import JarSet, class_path
from fencepost.embedded.java import find_java
from tests.support.checker import read_offsets, read_topic, values
from tests.support.processes import Process
from tests.support.topics import unique

SQLITE = JarSet("sqlite-jdbc-3.46.1.3", "SQLite's JDBC driver", (("org.xerial", "sqlite-jdbc", "3.46.1.3"),))


@pytest.fixture(scope="module")
def driver() -> Path:
    return next(jar for jar in class_path(find_java(), SQLITE) if jar.name.startswith("sqlite-jdbc"))


def run_once(folder: Path, bootstrap_servers: str, driver: Path, *connectors: dict[str, Any], status: int = 0) -> str:
    """Run a standalone worker until its connectors have read everything, or failed. Return its output."""
    worker = {
        "bootstrap.servers": bootstrap_servers,
        "listeners": "http://127.0.0.1:0",
        "offset.storage.topic": f"{folder.name}-offsets",
        "spark.master": "local[2]",
        "spark.jars": str(driver),
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "key.converter": "StringConverter",
    }
    (folder / "worker.properties").write_text("".join(f"{name}={value}\n" for name, value in worker.items()))
    files = []
    for number, connector in enumerate(connectors):
        files.append(folder / f"{number}.json")
        files[-1].write_text(json.dumps(connector))
    arguments = ["standalone", "--once", str(folder / "worker.properties"), *map(str, files)]
    with Process.fencepost(*arguments, log_file=folder / "log") as process:
        # Spark may take minutes to start on a busy machine.
        assert process.wait(480) == status, process.output
    return (folder / "log").read_text()


def rows(bootstrap_servers: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value or b"null") for value in values(read_topic(bootstrap_servers, topic))]


def test_tables_of_sqlite_are_read_whole_and_by_their_ids(bootstrap_servers: str, driver: Path, tmp_path: Path) -> None:
    folder, database, prefix = tmp_path / unique("sqlite"), tmp_path / "shop.db", unique("shop")
    folder.mkdir()
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("create table orders(id integer primary key, note text)")
        connection.executemany("insert into orders(note) values (?)", [(f"order {number}",) for number in range(100)])
    common = {
        "connector.class": "JdbcSource",
        "connection.url": f"jdbc:sqlite:{database}",
        "poll.interval.ms": "60000",
        "exactly.once.support": "required",
    }
    by_id = common | {
        "name": f"{prefix}-ids", "topic.prefix": f"{prefix}-ids-", "mode": "incrementing", "table.whitelist": "orders",
        "incrementing.column.name": "id", "single.writer": "true",
    }  # fmt: skip
    whole = common | {
        "name": f"{prefix}-query", "topic.prefix": f"{prefix}-query", "mode": "bulk",
        "query": "select note from orders where id <= 2 -- the first",
    }  # fmt: skip

    run_once(folder, bootstrap_servers, driver, by_id, whole)

    assert rows(bootstrap_servers, f"{prefix}-ids-orders") == [
        {"id": number + 1, "note": f"order {number}"} for number in range(100)
    ]
    assert rows(bootstrap_servers, f"{prefix}-query") == [{"note": "order 0"}, {"note": "order 1"}]
    assert read_offsets(bootstrap_servers, f"{folder.name}-offsets", f"{prefix}-ids") == [
        ({"protocol": "1", "table": "orders"}, {"incrementing": 100})
    ]


def test_ids_of_sqlite_that_are_fractions_are_read_once(bootstrap_servers: str, driver: Path, tmp_path: Path) -> None:
    folder, database, prefix = tmp_path / unique("sqlite"), tmp_path / "shop.db", unique("shop")
    folder.mkdir()

    def connector(table: str) -> dict[str, Any]:
        return {
            "name": f"{prefix}-{table}", "connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{database}",
            "poll.interval.ms": "60000", "exactly.once.support": "required", "topic.prefix": f"{prefix}-",
            "mode": "incrementing", "table.whitelist": table, "incrementing.column.name": "id", "single.writer": "true",
        }  # fmt: skip

    with closing(sqlite3.connect(database)) as connection, connection:
        kinds = dict.fromkeys(("exact", "down", "up"), "numeric(20,3)") | {"reals": "real", "texts": "text"}
        for table, kind in kinds.items():
            connection.execute(f"create table {table}(id {kind}, note text)")
        connection.execute("insert into exact values (1.5, 'a'), (2.25, 'b')")
        connection.execute("insert into down values (2.12345, 'a')")
        connection.execute("insert into up values (2.12399, 'a')")
        connection.execute("insert into reals values (1.5, 'a')")
        connection.execute("insert into texts values ('1', 'a')")
    tables = ("exact", "down", "up", "reals", "texts")
    output = run_once(folder, bootstrap_servers, driver, *map(connector, tables), status=1)

    assert [row["note"] for row in rows(bootstrap_servers, f"{prefix}-exact")] == ["a", "b"]
    offsets = f"{folder.name}-offsets"
    assert read_offsets(bootstrap_servers, offsets, f"{prefix}-exact") == [
        ({"protocol": "1", "table": "exact"}, {"incrementing": "2.250"})
    ]
    assert "The highest id of the table down is 2.123 as Spark reads it, and the database has no such id" in output
    assert "The highest id of the table up is 2.124 as Spark reads it, and the database has no such id" in output
    assert 'The column "id" (double) of the table reals has no exact numbers' in output
    assert 'The column "id" (string) of the table texts has no exact numbers' in output
    for table in tables[1:]:
        assert not read_offsets(bootstrap_servers, offsets, f"{prefix}-{table}")
