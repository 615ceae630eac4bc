"""Debezium's outbox EventRouter: the records that it makes of an outbox table's change events."""

from __future__ import annotations

import json
import logging
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError
from fencepost.api.schema_name import IDENTITY, JSON_METADATA, NULLS_METADATA
from fencepost.transforms.chain import Step, apply_chain
from fencepost.transforms.outbox import EventRouter
from tests.unit.transforms.support import Records, plain, step

ROW = "STRUCT<id: STRING, aggregatetype: STRING, aggregateid: STRING, type: STRING, payload: STRING, shard: INT, at: BIGINT COMMENT 'connect.name=io.debezium.time.MicroTimestamp version=1'>"
ENVELOPE = f"STRUCT<before: {ROW}, after: {ROW}, source: STRUCT<table: STRING>, op: STRING, ts_ms: BIGINT>"
FIRST = ("e1", "order", "42", "OrderCreated", '{"id": 42, "items": []}', 1, 1_000_007)
SECOND = ("e2", "customer", None, "Moved", "plain text", None, None)


ALMOST_JSON = (
    '{"a":1} x', "[1]x", "[1]]", "[1],", '[1],"b":0', '{"a":1}}', '{"a":1},"b":0}', '{"a":1}{"b":2}', '{"a":1}//c', "[1]\0",
)  # fmt: skip
"""Texts that begin like a JSON object or array."""


def event(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"topic": "pg.public.outbox", "key": "k", "value": (before, after, ("outbox",), op, 5), **more}


CREATED, READ = event("c", after=FIRST), event("r", after=SECOND)
EVENTS = Records(
    ENVELOPE,
    [CREATED, event("d", before=FIRST), {"key": "k", "value": None}, READ, event("u", FIRST, SECOND), event("t")],
    key="STRING",
)


def router(**properties: str) -> Step:
    transform = EventRouter()
    transform.configure({name.replace("_", "."): value for name, value in properties.items()})
    return Step(transform)


def messages(spark: SparkSession, records: Records, **properties: str) -> list[dict[str, Any]]:
    return [plain(row) for row in apply_chain(records.frame(spark), [router(**properties)]).collect()]


def test_inserted_and_read_rows_become_messages_and_nothing_else(spark: SparkSession) -> None:
    first, second = messages(spark, EVENTS)
    assert (first["topic"], first["key"], first["value"]) == ("outbox.event.order", "42", FIRST[4])
    assert first["headers"] == [{"key": "id", "value": b"e1"}]
    assert (first["timestamp"], first["partition"]) == (5, None)
    assert (second["topic"], second["key"], second["value"]) == ("outbox.event.customer", None, "plain text")


def test_updates_are_refused_if_they_are_fatal(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="A row of the outbox was updated"):
        messages(spark, EVENTS, table_op_invalid_behavior="fatal")
    assert len(messages(spark, EVENTS.with_rows(CREATED), table_op_invalid_behavior="fatal")) == 1


def test_the_create_that_an_update_of_the_key_becomes_is_an_update(spark: SparkSession) -> None:
    renamed = EVENTS.with_rows({**CREATED, "headers": [("__debezium.oldkey", bytearray(b"k"))]}, READ)
    assert [row["topic"] for row in messages(spark, renamed)] == ["outbox.event.customer"]
    with pytest.raises(PySparkException, match="A row of the outbox was updated"):
        messages(spark, renamed, table_op_invalid_behavior="fatal")


def arrow(values: list[Any], headers: list[Any]) -> pa.RecordBatch:
    row = pa.struct([("id", pa.string())])
    kind = pa.struct([("before", row), ("after", row), ("source", pa.string()), ("op", pa.string())])
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_pydict({"value": pa.array(values, kind), "headers": pa.array(headers, pairs)})


def test_dropped_events_that_are_no_inserts_or_deletes_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    one = {"id": "e"}
    given = [
        ("c", None, one),
        ("d", one, None),
        ("t", None, None),
        ("x", None, one),
        (None, None, one),
        ("c", None, None),
    ]
    values = [{"before": before, "after": after, "op": op} for op, before, after in given]
    headers = [None, [("h", b"")], [], [], [], [], [], [("h", b""), ("__debezium.oldkey", b"")]]
    transform = EventRouter()
    transform.configure({})
    transform.log_dropped(arrow([*values, None, values[0]], headers), "Task t")
    updates, others = caplog.messages
    assert updates.startswith("Task t: 1 updates of rows of the outbox were dropped")
    assert others.startswith("Task t: 4 events of the outbox were dropped that are not inserts, updates or deletes")
    caplog.clear()
    transform.log_dropped(arrow(values[:2], headers[:2]), "Task t")
    assert caplog.messages == []


def test_an_update_is_counted_beside_null_headers_that_hide_some(caplog: pytest.LogCaptureFixture) -> None:
    values = [{"before": None, "after": {"id": "e"}, "op": "c"}] * 3
    given = arrow(values, [[("h", b"")], [("h", b"")], [("__debezium.oldkey", b"")]])
    headers = given["headers"]
    hiding = pa.ListArray.from_arrays(headers.offsets, headers.values, mask=pa.array([False, True, False]))
    transform = EventRouter()
    transform.configure({})
    transform.log_dropped(given.set_column(1, "headers", hiding), "Task t")
    (updates,) = caplog.messages
    assert updates.startswith("Task t: 1 updates of rows of the outbox were dropped")


@pytest.mark.parametrize(("text", "timestamp"), [("2020-01-01T00:00:00.123456Z", 1_577_836_800_123), (None, 5)])
def test_a_timestamp_may_be_a_text_with_a_zone(spark: SparkSession, text: str | None, timestamp: int) -> None:
    zoned = ENVELOPE.replace("at: BIGINT", "at: STRING").replace("MicroTimestamp", "ZonedTimestamp")
    records = Records(zoned, [event("c", after=(*FIRST[:6], text))], key="STRING")
    assert [row["timestamp"] for row in messages(spark, records, table_field_event_timestamp="at")] == [timestamp]


@pytest.mark.parametrize(("kind", "last"), [("MicroTimestamp", 999), ("NanoTimestamp", 999_999)])
def test_the_digits_below_a_millisecond_are_cut_off(spark: SparkSession, kind: str, last: int) -> None:
    """A DOUBLE cannot represent all digits of a time in nanoseconds, and would round to the next millisecond."""
    at = 1_700_000_000_000 * (last + 1) + last
    records = Records(ENVELOPE.replace("MicroTimestamp", kind), [event("c", after=(*FIRST[:6], at))], key="STRING")
    assert [row["timestamp"] for row in messages(spark, records, table_field_event_timestamp="at")] == [
        1_700_000_000_000
    ]


def test_records_that_are_not_change_events_pass(spark: SparkSession) -> None:
    beats = Records("STRUCT<ts_ms: BIGINT>", [{"key": "k", "value": (7,)}, {"key": "k", "value": None}], key="STRING")
    assert [row["value"] for row in messages(spark, beats)] == [{"ts_ms": 7}]


def test_columns_have_other_names(spark: SparkSession) -> None:
    (found,) = messages(
        spark, EVENTS.with_rows(CREATED), table_field_event_id="type", table_field_event_key="id",
        table_field_event_payload="aggregateid", route_by_field="type", route_topic_regex="Order(.*)",
        route_topic_replacement="orders.$1", table_field_event_timestamp="at",
    )  # fmt: skip
    assert (found["topic"], found["key"], found["value"], found["timestamp"]) == ("orders.Created", "e1", "42", 1000)
    assert found["headers"] == [{"key": "id", "value": b"OrderCreated"}]


def test_a_row_without_a_timestamp_has_the_time_of_its_event(spark: SparkSession) -> None:
    found = messages(spark, EVENTS, table_field_event_timestamp="at")
    assert [row["timestamp"] for row in found] == [1000, 5]


def test_a_topic_that_the_regex_does_not_match_stays(spark: SparkSession) -> None:
    found = messages(spark, EVENTS, route_topic_regex="ord.*", route_topic_replacement="orders")
    assert [row["topic"] for row in found] == ["orders", "customer"]


def test_additional_columns_are_headers_fields_and_the_partition(spark: SparkSession) -> None:
    placement = "type:header:eventType, shard:partition, type:envelope, shard:envelope:number, nothing:header"
    first, second = messages(
        spark, EVENTS, table_fields_additional_placement=placement, table_field_additional_missing="ignore"
    )
    assert first["headers"] == [{"key": "id", "value": b"e1"}, {"key": "eventType", "value": b"OrderCreated"}]
    assert first["value"] == {"payload": FIRST[4], "type": "OrderCreated", "number": 1}
    assert (first["partition"], second["partition"]) == (1, None)


def test_a_missing_column_is_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError, match=r"needs the column 'nothing' of the outbox table, as table.fields.additional"):
        messages(spark, EVENTS, table_fields_additional_placement="nothing:header")
    with pytest.raises(DataError, match=r"needs the column 'body'.*Correct table.field.event.payload"):
        messages(spark, EVENTS, table_field_event_payload="body")
    with pytest.raises(ConfigError, match="header, envelope or partition"):
        router(table_fields_additional_placement="type:topic")


@pytest.mark.parametrize(
    "placement",
    ["shard:envelope:payload", "type:envelope:a, shard:envelope:a", "shard:partition, at:partition", ":header"],
)
def test_places_that_one_message_cannot_have_are_refused(placement: str) -> None:
    with pytest.raises(ConfigError, match=r"table\.fields\.additional\.placement"):
        router(table_fields_additional_placement=placement)


@pytest.mark.parametrize("kind", ["DOUBLE", "DECIMAL(10,2)"])
@pytest.mark.parametrize("name", ["table_fields_additional_placement", "table_field_event_schema_version"])
def test_a_column_with_fractions_is_neither_partition_nor_version(spark: SparkSession, name: str, kind: str) -> None:
    """The fraction must not be cut off."""
    records = Records(
        ENVELOPE.replace("shard: INT", f"shard: {kind}"), [event("c", after=(*FIRST[:5], None, 0))], key="STRING"
    )
    given = {"table_fields_additional_placement": "type:envelope", name: "shard"}
    if name == "table_fields_additional_placement":
        given[name] = "shard:partition"
    with pytest.raises(DataError, match="needs whole numbers in the column shard"):
        messages(spark, records, **given)


def test_headers_stay_before_the_new_ones(spark: SparkSession) -> None:
    given = {**CREATED, "headers": [("trace", bytearray(b"t"))]}
    (found,) = messages(spark, EVENTS.with_rows(given), table_fields_additional_placement="shard:header")
    assert [(header["key"], header["value"]) for header in found["headers"]] == [
        ("trace", b"t"), ("id", b"e1"), ("shard", b"1"),
    ]  # fmt: skip


@pytest.mark.parametrize("payload", [None, "", "  "])
def test_an_empty_payload_may_be_a_tombstone(spark: SparkSession, payload: str | None) -> None:
    records = EVENTS.with_rows(event("c", after=(*FIRST[:4], payload, None, None)))
    assert [row["value"] for row in messages(spark, records)] == [payload]
    frame = apply_chain(records.frame(spark), [router(route_tombstone_on_empty_payload="true")])
    assert [row["value"] for row in frame.collect()] == [None]
    assert frame.schema["value"].metadata[NULLS_METADATA] is True


@pytest.mark.parametrize(
    ("payload", "written"),
    [
        ('{"id": 42, "big": 12345678901234567890.10, "none": null}',) * 2,
        (" [1, 2]",) * 2,
        ("{not json", '"{not json"'),
        *((text, json.dumps(text)) for text in ALMOST_JSON),
        ('say "hi"', '"say \\"hi\\""'),
        ("12", '"12"'),
        (None, None),
    ],
)
def test_json_payloads_are_expanded_unchanged(spark: SparkSession, payload: str | None, written: str | None) -> None:
    records = EVENTS.with_rows(event("c", after=(*FIRST[:4], payload, 7, None)))
    frame = apply_chain(records.frame(spark), [router(table_expand_json_payload="true")])
    assert frame.schema["value"].metadata == {JSON_METADATA: True}
    assert [row["value"] for row in frame.collect()] == [written]
    both = {"table_expand_json_payload": "true", "table_fields_additional_placement": "shard:envelope"}
    (found,) = messages(spark, records, **both)
    assert found["value"] == f'{{"payload":{written or "null"},"shard":7}}'


def test_a_row_without_a_route_is_refused(spark: SparkSession) -> None:
    records = EVENTS.with_rows(event("c", after=("e1", None, *FIRST[2:])))
    with pytest.raises(PySparkException, match="has no aggregatetype, which says the topic"):
        messages(spark, records)


def test_a_batch_of_deletes_gives_no_messages(spark: SparkSession) -> None:
    schemaless = f"STRUCT<before: {ROW}, after: VOID, source: STRUCT<table: STRING>, op: STRING, ts_ms: BIGINT>"
    deletes = Records(schemaless, [event("d", before=FIRST)], key="STRING")
    assert messages(spark, deletes) == []
    assert messages(spark, Records("VOID", [{"key": "k", "value": None}], key="STRING")) == []


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("headers", [None, [("a", "x")]], ids=["none", "some"])
def test_a_header_of_a_number_stands_beside_texts(spark: SparkSession, headers: Any, *, first: bool) -> None:
    """Records of a table with a bigserial id and without headers, also after InsertHeader."""
    row = "STRUCT<id: BIGINT, aggregatetype: STRING, aggregateid: STRING, payload: STRING>"
    schema = (
        f"topic STRING, key STRING, value STRUCT<before: {row}, after: {row}, source: STRUCT<table: STRING>, op: STRING>, "
        "timestamp BIGINT, headers ARRAY<STRUCT<key: STRING, value: STRING>>"
    )
    values = (None, (7, "order", "42", "{}"), ("outbox",), "c")
    chain = [step("InsertHeader", {"header": "origin", "value.literal": "shop"}), router()]
    frame = apply_chain(
        spark.createDataFrame([("t", "k", values, 5, headers)], schema), chain if first else chain[::-1]
    )
    inserted, numbered = {"key": "origin", "value": "shop"}, {"key": "id", "value": "7"}
    (found,) = [plain(found["headers"]) for found in frame.collect()]
    known = [] if headers is None else [{"key": "a", "value": "x"}]
    assert found == [*known, *([inserted, numbered] if first else [numbered, inserted])]


def test_events_of_others_in_json_become_messages(spark: SparkSession) -> None:
    """Schemaless JSON: a null side has no fields, a payload may be a struct or bytes, and the time is the record's."""
    for kind, payload, value in (("STRUCT<a: INT>", (1,), {"a": 1}), ("BINARY", b"\0", b"\0")):
        row = f"STRUCT<id: STRING, aggregatetype: STRING, aggregateid: BIGINT, payload: {kind}>"
        envelope = f"STRUCT<before: VOID, after: {row}, source: STRUCT<table: STRING>, op: STRING>"
        created = {"value": (None, ("e1", "order", 42, payload), ("outbox",), "c"), "timestamp": 9}
        (found,) = messages(spark, Records(envelope, [created]), table_expand_json_payload="true")
        assert (found["topic"], found["key"], found["value"], found["timestamp"]) == (
            "outbox.event.order", 42, value, 9,
        )  # fmt: skip


def test_properties_of_tracing_are_accepted_and_one_line_says_that_they_do_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        router(route_by_field="type")
        assert caplog.messages == []
        router(tracing_operation_name="read", tracing_span_context_field="context")
    (told,) = caplog.messages
    assert told == (
        "EventRouter ignores tracing.operation.name, tracing.span.context.field: it writes no tracing spans, like "
        "Debezium without OpenTelemetry"
    )


def test_a_name_and_version_are_of_values_with_fields_beside_the_payload_alone(spark: SparkSession) -> None:
    records, version = EVENTS.with_rows(CREATED), {"table_field_event_schema_version": "shard"}
    assert IDENTITY not in messages(spark, records, **version)[0]
    (found,) = messages(spark, records, **version, table_fields_additional_placement="type:envelope")
    assert json.loads(found[IDENTITY]) == {"name": "pg.public.outbox.order.Value", "version": 1}
    (found,) = messages(spark, records, table_fields_additional_placement="type:envelope")
    assert json.loads(found[IDENTITY]) == {"name": "pg.public.outbox.order.Value"}
    with pytest.raises(DataError, match="needs the column 'nothing'"):
        messages(
            spark,
            records,
            table_field_event_schema_version="nothing",
            table_fields_additional_placement="type:envelope",
        )
