"""Functions that the soak's connectors of changes share."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.chaos.soak.rows import Seen
from tests.support.bank import records_by_transaction
from tests.support.postgres_source import PostgresSource
from tests.support.processes import wait_for

CAUGHT_UP_SECONDS = 300.0
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def json_converters() -> dict[str, str]:
    """The properties of a connector that writes JSON without schemas."""
    converters = {f"{part}.converter": _JSON for part in ("key", "value")}
    return converters | {f"{name}.schemas.enable": "false" for name in converters}


def connector_config(source: PostgresSource) -> dict[str, str]:
    """The configuration of a connector in a group."""
    return {**source.properties(), **json_converters(), "tasks.max": "1"}


def wait_until_captured(source: PostgresSource) -> None:
    """Wait until the slot has confirmed all that was written so far, which means that it is in Kafka."""
    database = source.database
    ((end,),) = database.execute("select pg_current_wal_flush_lsn()::text")
    captured = "select 1 from pg_replication_slots where slot_name = %s and confirmed_flush_lsn >= %s::pg_lsn"
    wait_for(
        lambda: database.execute(captured, [source.slot, end]), CAUGHT_UP_SECONDS, what=f"{source.prefix} is captured"
    )


def captured_rows(source: PostgresSource, table: str) -> Iterator[Seen]:
    """The rows in a table's topic, for a table whose rows are never deleted."""
    for transaction, record in records_by_transaction(source.bootstrap_servers, f"{source.prefix}.{table}"):
        event = json.loads(record.value or b"null")
        yield Seen(transaction, event["after"], snapshot=event["op"] == "r")
