"""Columns are added to a PostgreSQL table while the connector writes Avro with a real schema registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from fencepost.embedded.registry import EmbeddedRegistry
from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource
from tests.support.processes import wait_for


@pytest.fixture
def source(
    tmp_path: Path, bootstrap_servers: str, database: Database, schema_registry: EmbeddedRegistry
) -> Iterator[PostgresSource]:
    found = PostgresSource(tmp_path, bootstrap_servers, database)
    for role in ("key", "value"):
        found.change(**{
            f"{role}.converter": "io.confluent.connect.avro.AvroConverter",
            f"{role}.converter.schema.registry.url": schema_registry.url,
        })  # fmt: skip
    found.change(errors_tolerance="all")
    yield found
    found.drop_slot()


def events(source: PostgresSource, registry: EmbeddedRegistry, table: str) -> list[dict[str, Any]]:
    """The row of each event, in order of the rows' ids."""
    context = SerializationContext(f"{source.prefix}.{table}", MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        deserialize = AvroDeserializer(client)
        found = [deserialize(record.value, context)["after"] for record in source.records(table)]
    return sorted(found, key=lambda row: int(row["id"]))


def test_an_optional_column_passes_and_another_type_fails_the_task(
    source: PostgresSource, database: Database, schema_registry: EmbeddedRegistry
):
    subject = f"{source.prefix}.public.t-value"
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        client.set_compatibility(subject, level="BACKWARD")
    database.execute("create table t(id int primary key, name text)")
    database.execute("insert into t values (1, 'a')")
    first = {"id": 1, "name": "a"}
    rows = [first, {"id": 2, "name": "b", "note": "c"}, {"id": 3, "name": "d", "note": None}]
    with source.start(once=False) as process:
        wait_for(lambda: database.execute("select 1 from pg_stat_replication"), what="the stream")
        wait_for(lambda: events(source, schema_registry, "public.t") == [first], what="the snapshot")
        database.execute("alter table t add column note text")
        database.execute("insert into t values (2, 'b', 'c')")
        database.execute("insert into t values (3, 'd')")
        wait_for(lambda: len(source.records("public.t")) == 3, what="the rows with a new column")
        assert events(source, schema_registry, "public.t") == rows
        # In events all columns are optional fields, because a deleted row may have its key alone.
        database.execute("alter table t add column code int not null default 7")
        database.execute("insert into t values (4, 'e', null, 8)")
        database.execute("insert into t values (5, 'f')")
        rows += [{"id": 4, "name": "e", "note": None, "code": 8}, {"id": 5, "name": "f", "note": None, "code": 7}]
        wait_for(lambda: len(source.records("public.t")) == 5, what="the rows with a column that is never null")
        assert events(source, schema_registry, "public.t") == rows
        assert "FAILED" not in process.output
        database.execute("alter table t alter column name type int using 0")
        database.execute("insert into t values (6, 5)")
        wait_for(
            lambda: f"incompatible with those of subject {subject} (newest version: 3)" in process.output,
            what="the refusal",
        )
    assert events(source, schema_registry, "public.t") == rows
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        assert client.get_versions(subject) == [1, 2, 3]
        client.set_compatibility(subject, level="NONE")
    source.run_to_end()
    assert events(source, schema_registry, "public.t") == [*rows, {"id": 6, "name": 5, "note": None, "code": 7}]
