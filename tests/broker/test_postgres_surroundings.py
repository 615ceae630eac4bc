"""What surrounds a connection to PostgreSQL: the worker's environment, the role of the server, and other connectors."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.properties import JdbcConfig
from fencepost.connectors.postgres.connection import ConnectionSettings, PostgresError
from fencepost.connectors.postgres.connector import PostgresSourceConnector
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.postgres import Database
from tests.support.postgres_task import Topics


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    topics = Topics(database)
    yield topics
    topics.drop_slot()


@pytest.mark.parametrize(
    ("name", "value"), [("PGDATESTYLE", "German"), ("PGDATESTYLE", "SQL, DMY"), ("PGTZ", "Asia/Tokyo")]
)
def test_the_environment_does_not_change_the_form_of_times(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch, name: str, value: str
):
    monkeypatch.setenv(name, value)
    database.execute("create table t(id timestamptz primary key, day date)")
    row = "insert into t values ('2024-05-01 12:30+00', '2024-05-01'::date + {})"
    database.execute(row.format(0))
    topics.run()
    database.execute("truncate t; " + row.format(1))
    topics.run()

    events = [(key, event["after"]) for key, event in topics.events("public.t") if key is not None]
    at = "2024-05-01T12:30:00Z"
    assert events == [({"id": at}, {"id": at, "day": 19844}), ({"id": at}, {"id": at, "day": 19845})]


def test_the_environment_does_not_choose_the_server(postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch):
    # Nobody listens there.
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.9")
    url = f"jdbc:postgresql://localhost:{postgres.port},127.0.0.1:{postgres.port}/postgres"
    jdbc = JdbcConfig.parse({"connection.url": url, "connection.user": "postgres", "topic.prefix": "p"})

    with ConnectionSettings("127.0.0.1", postgres.port, "postgres", "postgres").connect() as connection:
        assert connection.info.port == postgres.port
    with PostgresAddress.of(jdbc.values, ANYWHERE).connect() as connection:
        assert connection.info.port == postgres.port


def test_a_standby_is_refused_before_anything_is_read():
    folder = Path(tempfile.mkdtemp(prefix="fencepost-standby-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        primary = stack.enter_context(EmbeddedPostgres())
        database = stack.enter_context(Database(primary))
        database.execute(
            "create table t(id int primary key); insert into t values (1); create publication mine for table t"
        )
        standby = EmbeddedPostgres(folder, settings={"hot_standby": "on"})
        standby.base_backup(primary, "--write-recovery-conf", "--checkpoint", "fast")
        stack.enter_context(standby)
        topics = Topics(database, publication_name="mine", publication_autocreate_mode="disabled")
        topics.change(database_port=str(standby.port))

        with pytest.raises(PostgresError, match=r"is a standby: correct database.hostname .*promote it"):
            topics.run()
        assert topics.committed_offset is None
        connector = PostgresSourceConnector()
        connector.context = topics  # type: ignore[assignment]
        config = {**topics.configs(), "name": "c", "connector.class": "PostgresSource"}
        (refused,) = [value for value in connector.validate(config) if value.errors]
        assert refused.name == "database.hostname"
        assert "is a standby" in refused.errors[0]
