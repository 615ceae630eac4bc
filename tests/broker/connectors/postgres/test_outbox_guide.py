"""The guide's page about an outbox: its table, transaction and connector file are run unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checker import read_topic
from tests.support.postgres import Database
from tests.support.processes import Process
from tests.support.topics import unique

_PAGE = (Path(__file__).parents[4] / "docs" / "guide" / "outbox.md").read_text()
_ROW = re.compile(r"^\| `(outbox\.event\.\w+)` \| `(\w+)` \|.*`(\{.*\})` \|$", re.MULTILINE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def slot(database: Database) -> Iterator[str]:
    slot = unique("slot").replace("-", "_")
    yield slot
    database.drop_slot(slot)


def test_a_consumer_sees_the_guides_records(
    tmp_path: Path, bootstrap_servers: str, database: Database, slot: str
) -> None:
    table, transaction = blocks("sql")
    (connector,) = blocks("properties")
    port, group = database.server.port, unique("group")
    # Other tests share the broker and the server.
    own = f"database.port={port}\ndatabase.dbname={database.name}\nslot.name={slot}\npublication.name={slot}\n"
    (tmp_path / "outbox.properties").write_text(connector.replace("database.dbname=postgres\n", "") + own)
    (tmp_path / "worker.properties").write_text(
        f"bootstrap.servers={bootstrap_servers}\ngroup.id={group}\nlisteners=http://127.0.0.1:0\n"
        f"offset.storage.topic={group}-offsets\nkey.converter=org.apache.kafka.connect.json.JsonConverter\n"
        "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
    )
    database.execute("CREATE TABLE orders(id int PRIMARY KEY, customer int, total int)")
    database.execute(table)
    files = [str(tmp_path / name) for name in ("worker.properties", "outbox.properties")]
    for number in range(2):
        with Process.forked("standalone", "--once", *files, log_file=tmp_path / f"log{number}") as process:
            assert process.wait() == 0, process.output
        if number == 0:
            database.execute(transaction)
    rows = _ROW.findall(_PAGE)
    assert len(rows) == 2
    ids = {str(one) for (one,) in database.execute("SELECT id FROM outbox")}
    for topic, key, value in rows:
        (record,) = read_topic(bootstrap_servers, topic)
        assert (record.key, json.loads(record.value or b"")) == (key.encode(), json.loads(value))
        headers = dict(record.headers)
        assert headers["id"] is not None
        assert headers["id"].decode() in ids
        assert headers["eventType"] == {"order": b"OrderPlaced", "customer": b"Charged"}[topic.rpartition(".")[2]]
