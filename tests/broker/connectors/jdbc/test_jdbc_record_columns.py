"""Keys, topics, timestamps and headers from columns of a table."""

from __future__ import annotations

import pytest

from fencepost.api.errors import ConfigError, DataError
from fencepost.connectors.jdbc.postgres.reader import PolledRows
from fencepost.connectors.jdbc.properties import JdbcConfig
from tests.support.jdbc_readers import TableReading
from tests.support.postgres import Database

COLUMNS = {
    "key.columns": "id,region",
    "topic.column": "topic",
    "timestamp.column": "at",
    "headers.columns": "region,amount",
}
TABLE = "create table t(id int primary key, region text, topic text, at timestamptz, amount numeric(8,2))"


def test_columns_make_the_key_topic_timestamp_and_headers(database: Database) -> None:
    database.execute(TABLE)
    database.execute(
        "insert into t values (1, 'north', 'orders', '2026-01-02 03:04:05.678901+01', 1.5), (2, null, null, null, null)"
    )
    with TableReading(database, COLUMNS) as reading:
        values = reading.poll()
        (found,) = reading.polls
    assert isinstance(found, PolledRows)
    assert values[0]["id"] == 1
    assert "key STRUCT<`id`: INT NOT NULL, `region`: STRING>, topic STRING, timestamp BIGINT" in found.shape.schema
    assert found.rows.select(["key", "topic", "timestamp", "headers"]).to_pylist() == [
        {
            "key": {"id": 1, "region": "north"},
            "topic": "orders",
            "timestamp": 1767319445678,
            "headers": [{"key": "region", "value": "north"}, {"key": "amount", "value": "1.50"}],
        },
        {
            "key": {"id": 2, "region": None},
            "topic": None,
            "timestamp": None,
            "headers": [{"key": "region", "value": None}, {"key": "amount", "value": None}],
        },
    ]


def test_a_column_that_the_table_does_not_have_is_refused_by_name(database: Database) -> None:
    database.execute("create table t(id int primary key, at timestamptz)")
    with (
        TableReading(database, {"key.columns": "nr"}) as reading,
        pytest.raises(ConfigError, match=r"The table public\.t: The property key\.columns names 'nr'.*: id, at"),
    ):
        reading.poll()


def test_a_row_that_is_not_a_record_is_an_error_that_names_the_table_and_the_column(database: Database) -> None:
    database.execute("create table t(id int primary key, at timestamptz)")
    database.execute("insert into t values (1, '1969-12-31')")
    with (
        TableReading(database, {"timestamp.column": "at"}) as reading,
        pytest.raises(DataError, match=r"A row of the table public\.t.*column at.*before 1970"),
    ):
        reading.poll()


def test_other_databases_do_not_have_these_properties() -> None:
    with pytest.raises(ConfigError, match=r"key\.columns needs PostgreSQL"):
        JdbcConfig.parse({
            "connection.url": "jdbc:sqlite:/x", "topic.prefix": "p-", "mode": "bulk", "table.whitelist": "t",
            "key.columns": "id",
        })  # fmt: skip
