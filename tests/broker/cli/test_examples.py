"""The files in examples/ work as their pages say."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from fencepost.config.properties import load_properties
from fencepost.converters.registry.reading import RegistryReader
from fencepost.embedded.registry import EmbeddedRegistry
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.postgres import Database
from tests.support.processes import Process, wait_for
from tests.support.topics import Topics, unique

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


class Example:
    """An example's files, with the test's broker and unique names."""

    def __init__(
        self, folder: Path, name: str, bootstrap_servers: str, topic: str, changes: dict[str, str] | None = None
    ) -> None:
        group = unique("group")
        self.log_file = folder / "log"
        worker = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "offset.storage.topic": f"{group}-offsets",
            "config.storage.topic": f"{group}-configs",
            "plugin.path": str(EXAMPLES),
        }
        self._files = [
            self._changed(folder, "worker.properties", worker),
            self._changed(folder, f"{name}.properties", {"topic": topic} | (changes or {})),
        ]

    def start(self, *options: str) -> Process:
        return Process.fencepost("standalone", *options, *self._files, log_file=self.log_file)

    @staticmethod
    def _changed(folder: Path, name: str, changes: dict[str, str]) -> str:
        settings = load_properties(EXAMPLES / name) | changes
        (folder / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(folder / name)


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_file_example_writes_its_lines(tmp_path: Path, bootstrap_servers: str, topic: str) -> None:
    with Example(tmp_path, "file", bootstrap_servers, topic).start("--once") as process:
        assert process.wait() == 0, process.output

    assert values(read_topic(bootstrap_servers, topic)) == (ROOT / "LICENSE").read_bytes().splitlines()


def test_the_csv_example_writes_its_rows(tmp_path: Path, bootstrap_servers: str, topic: str) -> None:
    with Example(tmp_path, "csv", bootstrap_servers, topic).start("--once") as process:
        assert process.wait() == 0, process.output

    records = read_topic(bootstrap_servers, topic)
    assert [record.key for record in records] == [b"Utrecht", b"Den Haag, Scheveningen", b"Almere"]
    assert values(records)[1:] == [
        b'{"id":2,"name":"Den Haag, Scheveningen","founded":1248,"area_km2":98.20}',
        b'{"id":3,"name":"Almere","founded":1976,"area_km2":null}',
    ]


def test_the_avro_example_writes_rows_of_a_csv_file(
    tmp_path: Path, bootstrap_servers: str, topic: str, schema_registry: EmbeddedRegistry
) -> None:
    changes = {"value.converter.schema.registry.url": schema_registry.url}
    with Example(tmp_path, "avro", bootstrap_servers, topic, changes).start("--once") as process:
        assert process.wait() == 0, process.output

    reader = RegistryReader({"schema.registry.url": schema_registry.url})
    found = [reader.read(value or b"", is_key=False) for value in values(read_topic(bootstrap_servers, topic))]
    reader.close()
    assert [row["name"] for row in found] == ["Utrecht", "Den Haag, Scheveningen", "Almere"]
    assert (found[1]["founded"], str(found[1]["area_km2"]), found[2]["area_km2"]) == (1248, "98.20", None)


def test_a_custom_connector_resumes_from_its_position(tmp_path: Path, bootstrap_servers: str, topic: str) -> None:
    example = Example(tmp_path, "counter", bootstrap_servers, topic)
    for enough in (3, 6):
        with example.start() as process:
            wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= enough, what=f"{enough} numbers")  # noqa: B023 - waited for here
            process.signal(signal.SIGTERM)
            assert process.wait() == 0, process.output

    numbers = [int(value) for value in values(read_topic(bootstrap_servers, topic))]
    assert_exactly_once(numbers, range(1, max(numbers) + 1))


def test_a_script_runs_twice_and_writes_once(tmp_path: Path, bootstrap_servers: str) -> None:
    command = [sys.executable, str(ROOT / "examples" / "script.py"), bootstrap_servers]
    for count, records in enumerate((3, 0)):
        with Process(["/usr/bin/env", "-C", str(ROOT), *command], tmp_path / f"log{count}") as process:
            assert process.wait() == 0, process.output
            assert f"Records: {records}, transactions: {records and 1}, cursors: [3]" in process.output
    assert len(read_topic(bootstrap_servers, "cities")) == 3


def test_the_example_of_postgres_writes_changes(
    tmp_path: Path, bootstrap_servers: str, topics: Topics, database: Database
) -> None:
    _make_orders(database, "postgres.md")
    prefix = unique("shop")
    slot = prefix.replace("-", "_")
    place = {"database.port": str(database.server.port), "database.dbname": database.name}
    changes = {"topic.prefix": prefix, "slot.name": slot, "publication.name": slot, **place}
    topic = topics.create(f"{prefix}.public.orders")

    _assert_orders(Example(tmp_path, "postgres", bootstrap_servers, topic, changes), bootstrap_servers, topic)

    # A slot that exists keeps its database from being dropped.
    database.execute(f"select pg_drop_replication_slot('{slot}')")


def test_the_example_of_jdbc_writes_rows(
    tmp_path: Path, bootstrap_servers: str, topics: Topics, database: Database
) -> None:
    _make_orders(database, "jdbc.md")
    prefix = unique("shop")
    changes = {"topic.prefix": prefix, "connection.url": database.jdbc_url}
    topic = topics.create(f"{prefix}orders")

    _assert_orders(Example(tmp_path, "jdbc", bootstrap_servers, topic, changes), bootstrap_servers, topic)


def _make_orders(database: Database, page: str) -> None:
    """Run the first SQL of a page, which makes the table of the example."""
    sql = re.search(r"```sql\n(.*?)```", (ROOT / "docs" / "connectors" / page).read_text(), re.DOTALL)
    assert sql is not None
    for statement in filter(str.strip, sql[1].split(";")):
        database.execute(statement)


def _assert_orders(example: Example, bootstrap_servers: str, topic: str) -> None:
    with example.start() as process:
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= 2, what="both rows are there")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0, process.output
    ada, grace = (value or b"" for value in values(read_topic(bootstrap_servers, topic)))
    assert b'"customer":"Ada"' in ada
    assert b'"customer":"Grace"' in grace
