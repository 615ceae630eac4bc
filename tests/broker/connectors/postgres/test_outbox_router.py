"""The outbox router on a real database: all events of a database transaction in one Kafka transaction, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.transaction_markers import read_transaction_markers
from tests.support.checker import read_topic
from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource
from tests.support.topics import unique

TABLE = """
create table outbox(
    id uuid primary key default gen_random_uuid(), aggregatetype text not null, aggregateid text not null,
    type text not null, payload jsonb
)
"""


@pytest.fixture
def source(tmp_path: Path, bootstrap_servers: str, database: Database) -> Iterator[PostgresSource]:
    source = PostgresSource(tmp_path, bootstrap_servers, database)
    yield source
    source.drop_slot()


def test_events_of_a_transaction_are_in_one_transaction_of_several_topics(
    source: PostgresSource, database: Database, bootstrap_servers: str
):
    one, two = unique("order"), unique("customer")
    database.execute(TABLE)
    source.change(
        transforms="outbox", transforms_outbox_type="io.debezium.transforms.outbox.EventRouter",
        transforms_outbox_table_expand_json_payload="true",
        transforms_outbox_table_fields_additional_placement="type:header:eventType",
        transforms_outbox_route_topic_replacement="${routedByValue}",
    )  # fmt: skip
    source.run_to_end()
    with database.connect() as connection:
        connection.autocommit = False
        for number in range(20):
            for kind in (one, two):
                connection.execute(
                    "insert into outbox(aggregatetype, aggregateid, type, payload) values (%s, %s, 'Placed', %s)",
                    [kind, str(number % 3), json.dumps({"order": number, "of": kind})],
                )
            connection.execute("delete from outbox")
            if number % 4 == 3:
                connection.rollback()
            else:
                connection.commit()
    source.run_to_end()

    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap_servers}, where="the test")
    transactions = {}
    for topic in (one, two):
        markers = list(read_transaction_markers(client, topic))
        assert all(marker.committed for marker in markers)
        records = read_topic(bootstrap_servers, topic)
        orders = [json.loads(record.value or b"")["order"] for record in records]
        assert sorted(orders) == [number for number in range(20) if number % 4 != 3]
        assert {dict(record.headers)["eventType"] for record in records} == {b"Placed"}
        assert len({dict(record.headers)["id"] for record in records}) == len(records)
        assert {json.loads(record.key or b"") for record in records} == {"0", "1", "2"}
        for record, order in zip(records, orders, strict=True):
            end = min(
                (
                    marker
                    for marker in markers
                    if marker.partition == record.partition and marker.offset > record.offset
                ),
                key=lambda marker: marker.offset,
            )
            transactions.setdefault(order, set()).add(end.transaction)
    assert all(len(found) == 1 for found in transactions.values())


def test_an_update_of_a_rows_id_becomes_no_message(source: PostgresSource, database: Database, bootstrap_servers: str):
    topic = unique("order")
    database.execute(TABLE)
    source.change(
        transforms="outbox", transforms_outbox_type="io.debezium.transforms.outbox.EventRouter",
        transforms_outbox_route_topic_replacement="${routedByValue}",
    )  # fmt: skip
    source.run_to_end()
    insert = "insert into outbox(aggregatetype, aggregateid, type) values (%s, %s, 'T')"
    with database.connect() as connection:
        for number in ("1", "2", "3"):
            connection.execute(insert, [topic, number])
        connection.execute("update outbox set id = gen_random_uuid() where aggregateid <> '2'")
        connection.execute(insert, [topic, "4"])
    source.run_to_end()
    records = read_topic(bootstrap_servers, topic)
    assert sorted(json.loads(record.key or b"") for record in records) == ["1", "2", "3", "4"]


def test_both_events_of_an_updated_key_have_the_other_key_in_a_header(source: PostgresSource, database: Database):
    database.execute("create table t(id int primary key)")
    source.run_to_end()
    database.execute("insert into t values (1)")
    database.execute("update t set id = 2")
    source.run_to_end()
    records = source.records("public.t")
    found = sorted((json.loads(record.key or b"")["id"], list(record.headers)) for record in records if record.value)
    assert found == [
        (1, []), (1, [("__debezium.newkey", b'{"id":2}')]), (2, [("__debezium.oldkey", b'{"id":1}')]),
    ]  # fmt: skip
