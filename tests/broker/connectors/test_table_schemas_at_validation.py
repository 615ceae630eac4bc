"""Validation asks the registry about the schemas of real PostgreSQL tables, and registers and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from fencepost.api.ddl import parse_columns
from fencepost.config.config_transformer import TransformedConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.connectors import table_schemas
from fencepost.converters.avro.converter import AvroConverter
from fencepost.embedded.registry import EmbeddedRegistry
from fencepost.runtime.connector.validation import Validation, validate
from tests.support.fake_registry import FakeRegistry, fake_registry
from tests.support.postgres import Database
from tests.support.topics import unique

WORKER = WorkerConfig.from_properties(
    {
        "bootstrap.servers": "127.0.0.1:1", "group.id": "g",
        **{f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")},
    },
    where="worker",
)  # fmt: skip
Source = Callable[[Database, FakeRegistry], dict[str, str]]
URL = "value.converter.schema.registry.url"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as found:
        yield found


@pytest.fixture
def tables(database: Database) -> Database:
    database.execute("create table first(id int primary key, name text, price numeric(10, 2) not null)")
    database.execute("create table second(at timestamptz)")
    database.execute("create table third(id int primary key)")
    return database


def changes(database: Database, registry: FakeRegistry, **more: str) -> dict[str, str]:
    return {
        "name": "c", "connector.class": "PostgresSource", "database.hostname": "127.0.0.1",
        "database.port": str(database.server.port), "database.user": "postgres", "database.dbname": database.name,
        "topic.prefix": "pg", "slot.name": "s", "table.include.list": "public.first,public.second",
        **converters(registry), **more,
    }  # fmt: skip


def rows(database: Database, registry: FakeRegistry, **more: str) -> dict[str, str]:
    return {
        "name": "c", "connector.class": "JdbcSource", "connection.url": database.jdbc_url, "connection.user": "postgres",
        "topic.prefix": "j-", "mode": "bulk", "table.whitelist": "first, second", **converters(registry), **more,
    }  # fmt: skip


def converters(registry: FakeRegistry) -> dict[str, str]:
    return {
        f"{role}.converter{name}": value
        for role in ("key", "value")
        for name, value in (("", "AvroConverter"), (".schema.registry.url", registry.address))
    }


def checked(properties: Mapping[str, str]) -> Validation:
    return validate(WORKER, TransformedConfig(properties))


def asked(registry: FakeRegistry) -> dict[str, list[str]]:
    """The fields of the schemas that were tested for compatibility, by subject."""
    found = {}
    for request in registry.asked("POST", "/compatibility"):
        subject = unquote(request.path).split("/")[3]
        found[subject] = [part["name"] for part in json.loads(request.body["schema"])["fields"]]
    return found


def test_the_events_of_captured_tables_are_asked_for(tables: Database, registry: FakeRegistry):
    assert checked(changes(tables, registry)).errors == []
    envelope = ["before", "after", "source", "op", "ts_ms", "transaction"]
    assert asked(registry) == {
        "pg.public.first-key": ["id"], "pg.public.first-value": envelope, "pg.public.second-value": envelope,
    }  # fmt: skip
    assert registry.subjects == {}
    assert tables.execute("select pubname from pg_publication") == []


def test_the_columns_of_a_publication_are_asked_for(tables: Database, registry: FakeRegistry):
    tables.execute("create publication dbz_publication for table first (id, name)")
    assert checked(changes(tables, registry, **{"publication.autocreate.mode": "disabled"})).errors == []
    (request,) = (found for found in registry.asked("POST", "/compatibility") if "first-value" in found.path)
    assert "price" not in request.body["schema"]


def test_the_rows_of_tables_are_asked_for(tables: Database, registry: FakeRegistry):
    assert checked(rows(tables, registry)).errors == []
    assert asked(registry) == {"j-first-value": ["id", "name", "price"], "j-second-value": ["at"]}


def test_the_rows_of_a_query_are_asked_for(tables: Database, registry: FakeRegistry):
    given = rows(tables, registry, query="select name as label from first")
    del given["table.whitelist"]
    assert checked(given | {"topic.prefix": "q"}).errors == []
    assert asked(registry) == {"q-value": ["label"]}


@pytest.mark.parametrize("source", [changes, rows])
def test_a_table_that_the_registry_would_refuse_is_an_error(tables: Database, registry: FakeRegistry, source: Source):
    registry.incompatible = "no default"
    found = checked({name: value for name, value in source(tables, registry).items() if not name.startswith("key.")})
    assert found.values[URL].errors == found.errors
    assert "incompatible with those of subject" in found.error_message


@pytest.mark.parametrize("source", [changes, rows])
def test_a_database_that_is_away_leaves_the_question_to_the_task(
    tables: Database, registry: FakeRegistry, source: Source
):
    registry.incompatible = "no default"
    gone = {"database.port": "1", "connection.url": "jdbc:postgresql://127.0.0.1:1/x"}
    given = source(tables, registry)
    assert checked({name: gone.get(name, value) for name, value in given.items()}).errors == []
    assert asked(registry) == {}


@pytest.mark.parametrize("source", [changes, rows])
def test_transforms_and_other_converters_leave_the_tables_alone(
    tables: Database, registry: FakeRegistry, source: Source
):
    registry.incompatible = "no default"
    chain = {"transforms": "a", "transforms.a.type": "HoistField$Value", "transforms.a.field": "f"}
    assert checked(source(tables, registry) | chain).errors == []
    assert asked(registry) == {}


def test_many_tables_do_not_hold_up_the_validation(
    tables: Database, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(table_schemas, "SECONDS", -1.0)
    registry.incompatible = "no default"
    assert checked(changes(tables, registry)).errors == []
    assert asked(registry) == {}


@pytest.mark.parametrize(
    ("column", "refused"),
    [("note text", False), ("note text default 'n'", False), ("code int not null default 7", True)],
)
def test_a_column_that_is_never_null_has_no_default_in_the_schema_of_rows(
    database: Database, schema_registry: EmbeddedRegistry, column: str, refused: bool
):
    prefix, properties = unique("jdbc"), {"schema.registry.url": schema_registry.url}
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        client.set_compatibility(f"{prefix}t-value", level="BACKWARD")
    converter = AvroConverter()
    converter.configure(properties, is_key=False)
    converter.prepare(f"{prefix}t", parse_columns("id INT NOT NULL"))
    database.execute(f"create table t(id int primary key, {column})")
    found = checked({
        "name": "c", "connector.class": "JdbcSource", "connection.url": database.jdbc_url, "connection.user": "postgres",
        "topic.prefix": prefix, "mode": "bulk", "table.whitelist": "t", "value.converter": "AvroConverter",
        URL: schema_registry.url,
    })  # fmt: skip
    assert [f"incompatible with those of subject {prefix}t-value" in error for error in found.errors] == [
        True
    ] * refused
