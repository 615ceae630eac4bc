"""`fencepost standalone --once` with a database that is or becomes unreachable: it ends, and says how to mend it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.checker import read_topic
from tests.support.fault_proxy import FaultProxy
from tests.support.postgres import Database
from tests.support.processes import Process, wait_for
from tests.support.topics import unique

JDBC = {"connector.class": "JdbcSource", "connection.user": "postgres"}
BY_TABLE = JDBC | {"table.whitelist": "public.t"}
BY_QUERY = JDBC | {"query": "select * from t", "mode": "bulk"}
CHANGES = {"connector.class": "PostgresSource", "database.hostname": "127.0.0.1", "database.user": "postgres"}


@pytest.fixture
def proxy(postgres: EmbeddedPostgres) -> Iterator[FaultProxy]:
    proxy = FaultProxy(postgres.port, framed=False).start()
    yield proxy
    proxy.stop()


class Once:
    """Runs `standalone --once` over a proxy; a failed task is restarted twice."""

    def __init__(self, folder: Path, bootstrap_servers: str, database: Database, proxy: FaultProxy) -> None:
        self.prefix = unique("away")
        self.slot = self.prefix.replace("-", "_")
        port = proxy.address.rpartition(":")[2]
        self._where = {
            "JdbcSource": {"connection.url": f"jdbc:postgresql://{proxy.address}/{database.name}"},
            "PostgresSource": {"database.port": port, "database.dbname": database.name, "slot.name": self.slot},
        }
        self.bootstrap_servers = bootstrap_servers
        self._folder = folder
        self._worker = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": self.prefix,
            "listeners": "http://127.0.0.1:0",
            "offset.storage.topic": f"{self.prefix}-offsets",
            "config.storage.topic": f"{self.prefix}-configs",
            "task.restart.max": "2",
            "task.restart.backoff.ms": "100",
            "key.converter": "JsonConverter",
            "value.converter": "JsonConverter",
        }

    def start(self, connector: Mapping[str, str]) -> Process:
        where = self._where[connector["connector.class"]]
        own = {"name": self.prefix, "topic.prefix": self.prefix, **where, **connector}
        files = []
        for name, properties in (("worker", self._worker), ("connector", own)):
            files.append(self._folder / f"{name}.properties")
            files[-1].write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return Process.forked("standalone", "--once", *map(str, files), log_file=self._folder / "log")


@pytest.fixture
def once(tmp_path: Path, bootstrap_servers: str, database: Database, proxy: FaultProxy) -> Iterator[Once]:
    database.execute("create table t(id int primary key); insert into t values (1)")
    once = Once(tmp_path, bootstrap_servers, database, proxy)
    yield once
    database.drop_slot(once.slot)


@pytest.mark.parametrize(
    ("connector", "failed"), [(BY_TABLE, "Connector"), (BY_QUERY, "Task"), (CHANGES, "Task")], ids=str
)
def test_a_run_to_the_end_ends_if_the_database_is_not_there(
    once: Once, proxy: FaultProxy, connector: dict[str, str], failed: str
) -> None:
    proxy.refuse()
    with once.start(connector) as process:
        assert process.wait() == 1
    *_, line = [line for line in process.output.splitlines() if f"{failed} {once.prefix}" in line and "ERROR" in line]
    assert proxy.address.rpartition(":")[2] in line
    assert "Connection refused" in line


@pytest.mark.parametrize(("connector", "topic"), [(BY_TABLE, "t"), (BY_QUERY, ""), (CHANGES, ".public.t")], ids=str)
def test_a_run_to_the_end_ends_if_the_database_goes_away(
    once: Once, proxy: FaultProxy, database: Database, connector: dict[str, str], topic: str
) -> None:
    with database.connect(autocommit=False) as owner, once.start(connector) as process:
        owner.execute("lock table t in access exclusive mode")
        wait_for(lambda: database.execute("select 1 from pg_locks where not granted"), what="the task reads the table")
        proxy.refuse()
        proxy.reset()
        assert process.wait() == 1
    assert f"Task {once.prefix}-0 failed: The source's end was not reached: " in process.output

    proxy.heal()
    with once.start(connector) as process:
        assert process.wait() == 0, process.output
    assert len(read_topic(once.bootstrap_servers, once.prefix + topic)) == 1
