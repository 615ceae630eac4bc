"""A PostgresSource on a worker process, and the events in its topics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support.checker import Record, read_offsets, read_topic
from tests.support.postgres import Database
from tests.support.processes import Process
from tests.support.topics import unique

_WORKER = """\
bootstrap.servers={bootstrap}
group.id={group}
listeners=http://127.0.0.1:0
offset.storage.topic={group}-offsets
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
value.converter.decimal.format=numeric
"""


class PostgresSource:
    """One connector over a database, run by one worker process after the other."""

    def __init__(self, folder: Path, bootstrap_servers: str, database: Database, **config: str) -> None:
        self.prefix = unique("pg")
        self.slot = self.prefix.replace("-", "_")
        self.group = unique("cdc")
        self.database = database
        self.bootstrap_servers = bootstrap_servers
        self._folder = folder
        self._runs = 0
        self._config = {
            "name": self.prefix,
            "connector.class": "PostgresSource",
            "database.hostname": "127.0.0.1",
            "database.port": str(database.server.port),
            "database.user": "postgres",
            "database.dbname": database.name,
            "topic.prefix": self.prefix,
            "slot.name": self.slot,
            "exactly.once.support": "required",
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
        } | {name.replace("_", "."): value for name, value in config.items()}

    def properties(self) -> dict[str, str]:
        return dict(self._config)

    def change(self, **config: str) -> None:
        self._config |= {name.replace("_", "."): value for name, value in config.items()}

    def start(self, *, once: bool = True, environment: Mapping[str, str] | None = None) -> Process:
        """Start a worker; with `once` it ends when it has read to the log position at its start."""
        self._runs += 1
        worker, connector = self._folder / "worker.properties", self._folder / "connector.properties"
        worker.write_text(_WORKER.format(bootstrap=self.bootstrap_servers, group=self.group))
        connector.write_text("".join(f"{name}={value}\n" for name, value in self._config.items()))
        options = ("--once",) if once else ()
        log = self._folder / f"run-{self._runs}.log"
        return Process.forked(
            "standalone", *options, str(worker), str(connector), log_file=log, environment=environment
        )

    def run(self, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run a worker to the end of the log, or until it dies; return the exit code and the output."""
        with self.start(environment=environment) as process:
            return process.wait(), process.output

    def run_to_end(self) -> None:
        code, output = self.run()
        assert code == 0, output

    def offset(self) -> dict[str, Any] | None:
        found = read_offsets(self.bootstrap_servers, f"{self.group}-offsets", self.prefix)
        return found[0][1] if found else None

    def records(self, table: str) -> list[Record]:
        """The records of a table's topic, of each partition in order."""
        return read_topic(self.bootstrap_servers, f"{self.prefix}.{table}")

    def events(self, table: str) -> list[tuple[Any, Any]]:
        """Keys and values of a table's records; None is a null value."""
        return [(_read(record.key), _read(record.value)) for record in self.records(table)]

    def drop_slot(self) -> None:
        self.database.drop_slot(self.slot)


def _read(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)


def replayed(events: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """The rows by key after a replay of the events. Fails for an event that does not fit the rows before it."""
    rows: dict[str, Any] = {}
    deleted: set[str] = set()
    for key, value in events:
        name = json.dumps(key)
        if value is None:
            assert name not in rows, f"a tombstone for {name}, which was not deleted"
            assert name in deleted, f"a tombstone for {name} without its delete"
            continue
        match value["op"]:
            case "c" | "r":
                assert name not in rows, f"{name} was created twice"
                rows[name] = value["after"]
            case "u":
                assert name in rows, f"{name} was updated, but is not there"
                rows[name] = value["after"]
            case "d":
                assert rows.pop(name, None) is not None, f"{name} was deleted, but is not there"
                deleted.add(name)
    return rows
