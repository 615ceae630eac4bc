from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from fencepost import ConfigError, DataError
from fencepost.api.schema_name import field_identity, named_field
from fencepost.transforms.chain import Step, apply_chain
from fencepost.transforms.new_record_state import ExtractNewRecordState
from tests.unit.transforms.support import Records, applied, plain, predicate

ROW = "STRUCT<id: INT, name: STRING>"
ENVELOPE = (
    f"STRUCT<before: {ROW}, after: {ROW}, source: STRUCT<table: STRING, lsn: BIGINT>, op: STRING, ts_ms: BIGINT, "
    "transaction: STRUCT<id: STRING, total_order: BIGINT>>"
)
SOURCE, TRANSACTION = ("people", 7), ("tx1", 3)
READ = {"key": "1", "value": (None, (1, "Ada"), SOURCE, "r", 5, None)}
UPDATE = {"key": "1", "value": (None, (1, "Bob"), SOURCE, "u", 5, TRANSACTION)}
DELETE = {"key": "1", "value": ((1, None), None, SOURCE, "d", 5, TRANSACTION), "timestamp": 5}
TOMBSTONE = {"key": "1", "value": None, "timestamp": 9}
TRUNCATE = {"value": (None, None, SOURCE, "t", 5, None)}
EVENTS = Records(ENVELOPE, [READ, UPDATE, DELETE, TOMBSTONE, TRUNCATE], key="STRING")
ROWS = [{"id": 1, "name": "Ada"}, {"id": 1, "name": "Bob"}]
LIVING = [{**row, "__deleted": "false"} for row in ROWS]
REWRITTEN = {"id": 1, "name": None, "__deleted": "true"}
MODE = "delete_tombstone_handling_mode"


def extracting(**properties: str) -> Step:
    transform = ExtractNewRecordState()
    transform.configure({name.replace("_", "."): value for name, value in properties.items()})
    return Step(transform)


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        ("drop", ROWS),
        ("tombstone", [*ROWS, None]),
        ("delete-to-tombstone", [*ROWS, None]),
        ("rewrite", [*LIVING, REWRITTEN]),
        ("rewrite-with-tombstone", [*LIVING, REWRITTEN, None]),
    ],
)
def test_events_become_rows_and_deletes_follow_the_mode(spark: SparkSession, mode: str, left: list[Any]) -> None:
    assert applied(spark, EVENTS, extracting(**{MODE: mode})) == left


@pytest.mark.parametrize("mode", ["tombstone", "delete-to-tombstone"])
def test_a_delete_without_a_tombstone_becomes_the_null_value(spark: SparkSession, mode: str) -> None:
    """The record keeps the key, timestamp and headers of the delete."""
    step = extracting(**{MODE: mode}, add_headers="op,ts_ms")
    (frame,) = [apply_chain(EVENTS.with_rows(DELETE).frame(spark), [step])]
    (found,) = [plain(row) for row in frame.collect()]
    assert (found["key"], found["value"], found["timestamp"]) == ("1", None, 5)
    assert found["headers"] == [{"key": "__op", "value": b"d"}, {"key": "__ts_ms", "value": b"5"}]


@pytest.mark.parametrize(("mode", "left"), [("tombstone", []), ("drop", []), ("rewrite-with-tombstone", [None])])
def test_tombstones_without_a_schema_are_handled_like_others(spark: SparkSession, mode: str, left: list[Any]) -> None:
    alone = Records("VOID", [{"key": "1"}], key="STRING")
    assert applied(spark, alone, extracting(**{MODE: mode})) == left


def test_a_predicate_keeps_records_that_the_transform_would_drop(spark: SparkSession) -> None:
    """The tombstones are in a topic to which the predicate does not apply the transform."""
    records = Records("VOID", [{"topic": "mine"}, {"topic": "changes"}])
    step = Step(extracting().transform, predicate("TopicNameMatches", {"pattern": "changes"}))
    assert applied(spark, records, step, column="topic") == ["mine"]


def test_fields_of_the_event_can_be_added(spark: SparkSession) -> None:
    step = extracting(add_fields="op,table,id,source.lsn:position,before.id,ts_us,transaction.total_order")
    first, second, _ = applied(spark, EVENTS, step)
    added = {"__op": "r", "__table": "people", "__position": 7, "__before_id": None}
    assert first == {"id": 1, "name": "Ada", **added, "__id": None, "__transaction_total_order": None}
    assert (second["__id"], second["__transaction_total_order"]) == ("tx1", 3)


def test_a_prefix_begins_the_names_of_added_fields_and_headers(spark: SparkSession) -> None:
    step = extracting(add_fields="op:what", add_fields_prefix="f.", add_headers="table", add_headers_prefix="h.")
    first = apply_chain(EVENTS.frame(spark), [step]).collect()[0]
    assert plain(first)["value"] == {"id": 1, "name": "Ada", "f.what": "r"}
    assert plain(first)["headers"] == [{"key": "h.table", "value": b"people"}]


def test_a_kept_tombstone_gets_only_the_header_op(spark: SparkSession) -> None:
    step = extracting(**{MODE: "rewrite-with-tombstone"}, add_headers="table,op:what")
    given = EVENTS.with_rows(DELETE, {**TOMBSTONE, "headers": [("h", b"x")]})
    deleted, buried = applied(spark, given, step, column="headers")
    assert deleted == [{"key": "__table", "value": b"people"}, {"key": "__what", "value": b"d"}]
    assert buried == [{"key": "h", "value": b"x"}, {"key": "__what", "value": b"d"}]


def test_a_column_routes_rows_and_deletes_to_their_topics(spark: SparkSession) -> None:
    named = {**DELETE, "value": ((1, "Eve"), *DELETE["value"][1:])}  # type: ignore[index]
    given = EVENTS.with_rows(READ, named, DELETE)
    step = extracting(route_by_field="name")
    assert applied(spark, given, step, column="topic") == ["Ada", "Eve", "t"]
    assert not step.transform.keeps_topics  # type: ignore[attr-defined]
    assert extracting().transform.keeps_topics  # type: ignore[attr-defined]


@pytest.mark.parametrize(("column", "reason"), [("nothing", "does not|do not have"), ("id", "of type int")])
def test_a_column_that_cannot_route_is_refused(spark: SparkSession, column: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        applied(spark, EVENTS, extracting(route_by_field=column))


def test_fields_that_a_header_lists_are_not_published(spark: SparkSession) -> None:
    listed = [("drop", b'["name","__op"]')]
    rows = [{**READ, "headers": listed}, READ, {**DELETE, "headers": listed}]
    step = extracting(drop_fields_header_name="drop", add_fields="op", **{MODE: "rewrite"})
    assert applied(spark, EVENTS.with_rows(*rows), step) == [
        {"id": 1, "name": None, "__deleted": "false", "__op": None},
        {"id": 1, "name": "Ada", "__deleted": "false", "__op": "r"},
        {"id": 1, "name": None, "__deleted": "true", "__op": None},
    ]


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({}, {"id": 1, "name": "k"}),
        ({"drop_fields_from_key": "true"}, {"id": 1, "name": None}),
        (
            {"drop_fields_from_key": "true", "drop_fields_keep_schema_compatible": "false"},
            {"id": None, "name": None},
        ),
    ],
)
def test_listed_fields_leave_the_key_if_that_is_wanted(spark: SparkSession, properties: Any, key: Any) -> None:
    """Non-null fields leave the key only if the schema need not stay compatible."""
    row = {**READ, "key": (1, "k"), "headers": [("drop", b'["id","name"]')]}
    given = Records(ENVELOPE, [row], key="STRUCT<id: INT NOT NULL, name: STRING>")
    assert applied(spark, given, extracting(drop_fields_header_name="drop", **properties), column="key") == [key]


def test_events_without_a_row_that_are_no_truncates_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    row = pa.struct([("id", pa.int64())])
    kind = pa.struct([("before", row), ("after", row), ("source", pa.string()), ("op", pa.string())])
    operations = pa.array([{"op": op} for op in ("c", "t", "d", None)], kind)
    step = ExtractNewRecordState()
    step.configure({})
    step.log_dropped(pa.RecordBatch.from_pydict({"value": operations}), "Task t")
    assert caplog.messages == [
        "Task t: 2 events, other than truncates, were dropped, as they have no row before or after the change"
    ]


@pytest.mark.parametrize("header", [b"name", b'["name"] x'])
def test_a_header_that_is_not_a_list_of_fields_is_refused(spark: SparkSession, header: bytes) -> None:
    given = EVENTS.with_rows({**READ, "headers": [("drop", header)]})
    with pytest.raises(PySparkException, match="The header drop must be a list of fields"):
        applied(spark, given, extracting(drop_fields_header_name="drop"))


def test_events_without_a_schema_have_one_side_only(spark: SparkSession) -> None:
    rest = "source: STRUCT<lsn: BIGINT>, op: STRING"
    created = Records(f"STRUCT<before: VOID, after: {ROW}, {rest}>", [{"value": (None, (1, "Ada"), (7,), "c")}])
    deleted = Records(f"STRUCT<before: {ROW}, after: VOID, {rest}>", [{"value": ((1, "Ada"), None, (7,), "d")}])
    assert applied(spark, created, extracting()) == [{"id": 1, "name": "Ada"}]
    assert applied(spark, deleted, extracting()) == [None]
    assert applied(spark, deleted, extracting(**{MODE: "rewrite"})) == [{"id": 1, "name": "Ada", "__deleted": "true"}]


def test_records_that_are_not_events_stay(spark: SparkSession) -> None:
    others = Records("STRUCT<id: INT>", [{"value": (1,)}])
    assert applied(spark, others, extracting(add_headers="op")) == [{"id": 1}]
    assert applied(spark, others, extracting(add_headers="op"), column="headers") == [[]]


def test_fields_that_events_do_not_have_are_left_out(spark: SparkSession) -> None:
    """As in Debezium: events of other connectors in the pipeline may have these fields."""
    assert applied(spark, EVENTS, extracting(add_fields="nothing,transaction.nothing,ts_ns"))[:2] == ROWS


def test_names_that_rows_have_already_are_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError, match=r"have already: id\..*add\.fields\.prefix"):
        applied(spark, EVENTS, extracting(add_fields="id", add_fields_prefix=""))


@pytest.mark.parametrize("field", ["other.name", "source.a.b", "source."])
def test_malformed_names_of_fields_are_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=r"add\.headers has .*source\.lsn"):
        extracting(add_headers=field)


def test_a_listed_field_that_may_not_be_null_is_dropped_if_the_schema_may_change(spark: SparkSession) -> None:
    required = ENVELOPE.replace("id: INT", "id: INT NOT NULL")
    given = Records(required, [{**READ, "headers": [("drop", b'["id","name"]')]}], key="STRING")
    for compatible, number in (("true", 1), ("false", None)):
        step = extracting(drop_fields_header_name="drop", drop_fields_keep_schema_compatible=compatible)
        assert applied(spark, given, step) == [{"id": number, "name": None}]


def test_columns_keep_the_names_of_their_schemas(spark: SparkSession) -> None:
    row = f"STRUCT<at: BIGINT {named_field('io.debezium.time.Timestamp')}, name: STRING>"
    events = [{"value": (None, (5, "a"), (1,), "c")}, {"value": ((6, "b"), None, (1,), "d")}]
    given = Records(f"STRUCT<before: {row}, after: {row}, source: STRUCT<lsn: BIGINT>, op: STRING>", events)
    frame = apply_chain(given.frame(spark), [extracting(**{MODE: "rewrite"}, add_fields="op")])
    kind = frame.schema["value"].dataType
    assert [field_identity(field).get("name") for field in kind] == ["io.debezium.time.Timestamp", None, None, None]  # type: ignore[attr-defined]
    assert [row["value"]["at"] for row in frame.collect()] == [5, 6]


def test_the_null_of_a_delete_stands_at_the_place_of_its_event(spark: SparkSession) -> None:
    assert applied(spark, EVENTS, extracting(), column="__fencepost_row") == [0, 1, 2]


EVERY = {
    "i": "INT", "l": "BIGINT", "d": "DOUBLE", "p": "DECIMAL(10, 2)", "t": "STRING", "b": "BINARY", "o": "BOOLEAN",
    "day": "DATE", "at": "TIMESTAMP", "local": "TIMESTAMP_NTZ", "s": "STRUCT<n: INT NOT NULL, t: STRING>",
    "a": "ARRAY<STRUCT<n: INT NOT NULL>>", "m": "MAP<STRING, INT>",
}  # fmt: skip
_EPOCH = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
EVERY_ROW = (
    1, 2, 3.5, Decimal("4.25"), "five", b"6", True, _EPOCH.date(), _EPOCH, _EPOCH.replace(tzinfo=None), (7, None), [(8,)],
    {"n": 9}, 10,
)  # fmt: skip


@pytest.mark.parametrize("mode", ["tombstone", "rewrite"])
def test_columns_that_may_not_be_null_stay_so(spark: SparkSession, mode: str) -> None:
    row = ", ".join(f"{name}: {kind} NOT NULL" for name, kind in EVERY.items())
    before, after = f"STRUCT<{row}, once: INT>", f"STRUCT<{row}, once: INT NOT NULL>"
    envelope = f"STRUCT<before: {before}, after: {after}, source: STRUCT<table: STRING NOT NULL>, op: STRING>"
    deleted = (*EVERY_ROW[:-1], None)
    records = Records(envelope, [{"value": (None, EVERY_ROW, ("t",), "c")}, {"value": (deleted, None, ("t",), "d")}])
    frame = apply_chain(records.frame(spark), [extracting(**{MODE: mode}, add_fields="table")])
    kind = frame.schema["value"].dataType
    assert isinstance(kind, StructType)
    required = {field.name for field in kind.fields if not field.nullable}
    assert required - {"__deleted"} == {*EVERY} | ({"once"} if mode == "tombstone" else set())
    (given,) = spark.createDataFrame([], f"row STRUCT<{row}>").schema.fields
    assert isinstance(given.dataType, StructType)
    assert [field.dataType for field in kind.fields[: len(EVERY)]] == [
        field.dataType for field in given.dataType.fields
    ]
    first, second = [found["value"] for found in frame.collect()]
    assert plain(first)["s"] == {"n": 7, "t": None}
    assert tuple(first)[:8] == EVERY_ROW[:8]
    assert (second is None) == (mode == "tombstone")
